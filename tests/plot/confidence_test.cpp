// How sure a model is: of points of a circle, and of one answer.
#include "caravan/plot/confidence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "caravan/plot/bars.h"
#include "plot/decoded.h"
#include "svg.h"

namespace caravan::plot {
namespace {

// Four points on a line, two of either class: sure, unsure, wrong, without an answer.
Confidence line() {
  return {"Line",
          {0, 4, 0, 1, 8, 2},
          Array(parse_shape("4|2"), {0.5, 0.75, 1.5, 0.75, 2.5, 0.75, 3.5, 0.25}),
          Array::vector({0.99, 0.6, 0.9, kNan}),
          Array::vector({1, 1, 0, 0}),
          {"out", "in"}};
}

TEST(Confidence, ATextShowsWhoIsSure) {
  Confidence confidence = line();
  EXPECT_EQ(text(confidence),
            "Line: o says in, x says out, capitals where the model is 90% sure, ! where it is wrong (1 of 4)\n\n"
            "   O o !\n"
            "         ?\n");
  confidence.probabilities = Array::vector({0.01, 0.4, 0.05, 0.5});
  confidence.labels = Array::vector({-1, 0, 0, 1});
  EXPECT_EQ(text(confidence),
            "Line: o says in, x says out, capitals where the model is 90% sure, ! where it is wrong (0 of 4)\n\n"
            "   X x X\n"
            "         o\n");
}

TEST(Confidence, WrongAnswersAreNotHidden) {
  Confidence confidence = line();
  confidence.points = Array(parse_shape("4|2"), {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  const string drawn = text(confidence);
  EXPECT_CONTAINS(drawn.substr(drawn.find("\n\n")), "!");
}

TEST(Confidence, TheCircleIsDrawn) {
  Confidence confidence = line();
  confidence.frame = {-2, 2, -2, 2, 9, 5};
  confidence.points = Array(parse_shape("4|2"), std::vector<double>(8, 0.0));
  confidence.circle = Circle{0, 0, 1.5};
  const string drawn = text(confidence);
  EXPECT_EQ(drawn.substr(drawn.find("\n\n") + 2),
            "    .....\n"
            "   ..   ..\n"
            "   .  !  .\n"
            "   ..   ..\n"
            "    .....\n");
  const string picture = svg(confidence);
  EXPECT_EQ(mistake(picture), "") << picture;
  EXPECT_EQ(numbers(picture, "ellipse", "cx"), std::vector<double>{240});
  EXPECT_EQ(numbers(picture, "ellipse", "rx"), std::vector<double>{180});
  EXPECT_EQ(numbers(picture, "ellipse", "ry"), std::vector<double>{180});
}

TEST(Confidence, AnSvgIsFaintWhereTheModelIsUnsureAndOutlinesWhatIsWrong) {
  const string picture = svg(line());
  EXPECT_EQ(mistake(picture), "") << picture;
  const size_t legend = 4;
  const std::vector<double> size = numbers(picture, "circle", "r"),
                            opacity = numbers(picture, "circle", "fill-opacity"), x = numbers(picture, "circle", "cx"),
                            y = numbers(picture, "circle", "cy");
  ASSERT_EQ(size.size(), 4 + legend);
  EXPECT_GT(size[0], size[1]);
  EXPECT_GT(opacity[0], opacity[1]);
  EXPECT_EQ(count(picture, "stroke-width=\"1.5\""), 2u);  // the wrong one, and the one that says so
  EXPECT_EQ(count(picture, "fill=\"#2563a8\" fill-opacity"), 4u);
  EXPECT_EQ(x[0], 70 + 60);
  EXPECT_EQ(x[3], 70 + 300);  // the wrong one is last
  EXPECT_EQ(y[0], 40 + 30);
  EXPECT_CONTAINS(picture, ">says in<");
  EXPECT_CONTAINS(picture, ">says out<");
  EXPECT_EQ(picture, svg(line()));
}

TEST(Confidence, OddNumbersDoNotStopTheDrawing) {
  Confidence confidence = line();
  confidence.title = confidence.classes[0] = "<&>";
  confidence.points = Array(parse_shape("4|2"), {kNan, 0.5, 0.5, kInfinity, 9, 9, 0.5, 0.5});
  confidence.probabilities = Array::vector({kNan, kInfinity, -kInfinity, 7}, DType::f64);
  for (double odd : {kNan, kInfinity, -1.0, 0.0}) {
    confidence.circle = Circle{0, 0, odd};
    const string picture = svg(confidence);
    EXPECT_EQ(mistake(picture), "") << picture;
    for (const char* word : {"nan", "inf", "=\"-"}) EXPECT_EQ(picture.find(word), string::npos) << picture;
    EXPECT_EQ(numbers(picture, "circle", "cx").size(), 1u + 4) << picture;
    EXPECT_CONTAINS(text(confidence), "<&>");
  }
  confidence.labels = Array::vector({1, 2});
  EXPECT_CONTAINS(refusal([&] { svg(confidence); }),
                  "4 probabilities need points 4|2 and 4 labels, not 8 and 2 numbers");
  EXPECT_CONTAINS(refusal([&] { text(confidence); }), "4 probabilities");
}

TEST(Bars, ATextHasABarForEachProbability) {
  EXPECT_EQ(text(Bars{"Which", {"0", "one", "2", "3", "4"}, {1, 0.5, 0.0625, 0, kNan}}, 8),
            "Which\n\n"
            "    0 ▕████████  100.00%\n"
            "  one ▕████       50.00%\n"
            "    2 ▕▌           6.25%\n"
            "    3 ▕            0.00%\n"
            "    4 ▕         not a number\n");
  EXPECT_EQ(text(Bars{"", {"a"}, {-2}}, 4), "  a ▕     -200.00%\n");
  EXPECT_EQ(text(Bars{"", {"a"}, {2}}, 4), "  a ▕████  200.00%\n");
}

TEST(Bars, AnSvgHasBarsAsLongAsTheProbabilities) {
  const Bars bars{"Which <one>", {"a", "&", "c", "d"}, {0.25, 0.5, kNan, 7}};
  const string picture = svg(bars);
  EXPECT_EQ(mistake(picture), "") << picture;
  const std::vector<double> wide = numbers(picture, "rect", "width");
  EXPECT_EQ((std::vector<double>(wide.begin() + 1, wide.end())), (std::vector<double>{80, 160, 0, 320}));
  EXPECT_EQ(picture.find("nan"), string::npos);
  EXPECT_EQ(mistake(svg(Bars{"", {}, {}})), "");
  EXPECT_CONTAINS(refusal([] {
                    text(Bars{"Which", {"a"}, {1, 2}});
                  }),
                  "Bars \"Which\": there are 1 names and 2 values");
  EXPECT_CONTAINS(refusal([] { svg(Bars{"Which", {"a"}, {1, 2}}); }), "1 names and 2 values");
}

}  // namespace
}  // namespace caravan::plot
