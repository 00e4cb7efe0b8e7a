// Which class was taken for which.
#include "caravan/plot/confusion.h"

#include <gtest/gtest.h>

#include "plot/decoded.h"
#include "svg.h"

namespace caravan::plot {
namespace {

TEST(Confusion, CountsExamples) {
  const Confusion c = confusion("Pets", {"cat", "dog", "owl"}, Array::vector({0, 0, 0, 1, 1, 0}, DType::i32),
                                Array::vector({0, 0, 1, 1, 0, 0}, DType::i32));
  EXPECT_EQ(c.counts, (std::vector<int64_t>{3, 1, 0, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(c.total(), 6);
  EXPECT_EQ(c.right(), 4);
  EXPECT_DOUBLE_EQ(c.recall(0), 3 / 4.0);
  EXPECT_DOUBLE_EQ(c.recall(1), 1 / 2.0);
  EXPECT_DOUBLE_EQ(c.precision(0), 3 / 4.0);
  EXPECT_DOUBLE_EQ(c.accuracy(), 4 / 6.0);
  EXPECT_TRUE(std::isnan(c.recall(2)));
  EXPECT_TRUE(std::isnan(c.precision(2)));
}

TEST(Confusion, WhatIsNoClassIsRefused) {
  const auto with = [](std::vector<double> truth, std::vector<double> said) {
    return refusal([&] { confusion("Pets", {"cat", "dog"}, Array::vector(truth), Array::vector(said)); });
  };
  EXPECT_CONTAINS(with({0, 1}, {0}), "Confusion \"Pets\": there are 2 true classes and 1 answers");
  EXPECT_CONTAINS(with({0, 2}, {0, 1}), "example 1 has class 2, and there are 2 classes");
  EXPECT_CONTAINS(with({0}, {-1}), "example 0 has class -1");
  EXPECT_CONTAINS(with({0.5}, {1}), "class 0.5");
  EXPECT_CONTAINS(with({kNan}, {1}), "class nan");
  for (const Confusion& bad : {Confusion{"Pets", {"cat", "dog"}, {1, 2, 3}}, Confusion{"Pets", {"cat"}, {-1}}}) {
    EXPECT_CONTAINS(refusal([&] { text(bad); }), "Confusion \"Pets\"");
    EXPECT_CONTAINS(refusal([&] { svg(bad); }), "Confusion \"Pets\"");
  }
}

TEST(Confusion, ATableIsAligned) {
  EXPECT_EQ(text(Confusion{"Pets", {"cat", "dög", "parrot"}, {8, 2, 0, 1, 120345, 0, 0, 0, 0}}),
            "Pets: a row for what it is, a column for what the model said\n\n"
            "              cat     dög  parrot  recall\n"
            "      cat       8       2       .    80.0\n"
            "      dög       1  120345       .    99.9\n"
            "   parrot       .       .       .       -\n"
            "precision    88.9    99.9       -    99.9\n\n"
            "120353 of 120356 are right; recall and precision in %\n");
  EXPECT_CONTAINS(text(Confusion{"One", {"a"}, {3}}), "    3     100\n");
  EXPECT_CONTAINS(text(Confusion{"None", {}, {}}), "0 of 0 are right");
}

TEST(Confusion, ATableThatIsTooWideIsAListOfMistakes) {
  std::vector<string> letters;
  std::vector<int64_t> counts(26 * 26);
  for (int64_t c = 0; c < 26; ++c) letters.emplace_back(1, char('a' + c)), counts[size_t(27 * c)] = 100;
  counts[1] = 3, counts[26] = 5;  // a as b, b as a
  EXPECT_EQ(text(Confusion{"Letters", letters, counts}, 80),
            "Letters: the commonest mistakes\n\n"
            "  b taken for a       5\n"
            "  a taken for b       3\n\n"
            "2600 of 2608 are right\n");
  EXPECT_CONTAINS(text(Confusion{"Letters", letters, counts}, 200), "a row for what it is");
}

TEST(Confusion, AHeatMapIsDarkerWhereMoreIs) {
  const Confusion c{"Pets & co", {"cat", "<dog>"}, {1000, 30, 0, 3}};
  const string picture = svg(c);
  EXPECT_EQ(mistake(picture), "") << picture;
  EXPECT_CONTAINS(picture, "Pets &amp; co");
  EXPECT_CONTAINS(picture, "&lt;dog&gt;");
  EXPECT_CONTAINS(picture, "fill=\"#2563a8\"/>");          // the largest count has the full colour
  EXPECT_CONTAINS(picture, "fill=\"#ffffff\">1000<");      // light on dark
  EXPECT_CONTAINS(picture, "text-anchor=\"middle\">30<");  // dark on light
  EXPECT_EQ(picture.find(">0<"), string::npos);
  const std::vector<double> x = numbers(picture, "rect", "x"), y = numbers(picture, "rect", "y");
  ASSERT_EQ(x.size(), 4u);                                                          // three cells and the frame
  EXPECT_EQ((std::vector<double>{y[0], y[1]}), (std::vector<double>{y[3], y[3]}));  // the first row is the first class
  EXPECT_EQ(x[0], x[3]);
  EXPECT_EQ(x[1], x[2]);
  EXPECT_GT(y[2], y[3]);
  EXPECT_EQ(mistake(svg(Confusion{"None", {}, {}})), "");
  const string empty = svg(Confusion{"Empty", {"a"}, {0}});
  EXPECT_EQ(mistake(empty), "");
  EXPECT_EQ(empty.find("nan"), string::npos) << empty;
}

}  // namespace
}  // namespace caravan::plot
