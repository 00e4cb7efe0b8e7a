// Orders, splits and batches of examples, and their normalization.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "caravan/data/loader.h"
#include "caravan/data/order.h"
#include "data/counted.h"

namespace caravan::data {
namespace {

using std::string;
using Values = std::vector<double>;

TEST(Order, IsAPermutationAndAFunctionOfItsNames) {
  const auto order = permutation(100, 3, "a");
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 100u);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 99);
  EXPECT_EQ(order, permutation(100, 3, "a"));
  EXPECT_NE(order, permutation(100, 4, "a"));
  EXPECT_NE(order, permutation(100, 3, "b"));
  EXPECT_NE(order, permutation(100, 3, "a", 1));
  EXPECT_TRUE(permutation(0, 3, "a").empty());
}

TEST(Split, PartsDoNotOverlapAndPairsStayTogether) {
  const Array x = counted("103|2"), y = counted("103|", DType::i32);
  const auto parts = split({x, y}, {0.8, 0.1, 0.1}, 5);
  ASSERT_EQ(parts.size(), 3u);
  std::set<double> seen;
  for (const Arrays& part : parts)
    for (int64_t i = 0; i < part[1].size(); ++i) {
      EXPECT_TRUE(seen.insert(part[1].at(i)).second);
      EXPECT_EQ(part[0].at({i, 1}), 2 * part[1].at(i) + 1);
    }
  EXPECT_EQ(seen.size(), 103u) << "none is lost";
  EXPECT_EQ(parts[0][1].size(), 82);
  EXPECT_TRUE(same(parts[0], split({x, y}, {0.8}, 5)[0]));
  EXPECT_FALSE(same(parts[0], split({x, y}, {0.8}, 6)[0]));
  EXPECT_EQ(split({y}, {0.0, 1.0}, 1)[0][0].size(), 0);
  EXPECT_EQ(split({y}, {1.0 / 3, 1.0 / 3, 1.0 / 3}, 1)[2][0].size(), 34);
  EXPECT_THROW(split({x, y}, {0.8, 0.3}, 5), ConfigError);
  EXPECT_THROW(split({x, y}, {-0.1}, 5), ConfigError);
  EXPECT_THROW(split({x, counted("102|")}, {0.5}, 5), ShapeError);
  EXPECT_THROW(split({}, {0.5}, 5), ShapeError);
  EXPECT_THROW(split({counted("")}, {0.5}, 5), ShapeError);
  const Arrays all = shuffled({x, y}, 5);
  EXPECT_EQ(all[0].at({7, 0}), 2 * all[1].at(7));
  EXPECT_FALSE(same(all, {x, y}));
}

TEST(Batches, TheLastIsCompletedByTheFirstExamples) {
  const Array batches = whole_batches(counted("7|2"), 3);
  EXPECT_EQ(to_string(batches.shape()), "3,3|2");
  EXPECT_EQ(batches.at({2, 0, 0}), 12);
  EXPECT_EQ(batches.at({2, 1, 0}), 0);
  EXPECT_EQ(batches.at({2, 2, 1}), 3);
  EXPECT_EQ(to_string(whole_batches(counted("6|2"), 3).shape()), "2,3|2");
  EXPECT_EQ(whole_batches(counted("2|"), 5).values(), (Values{0, 1, 0, 1, 0}));
  EXPECT_THROW(whole_batches(counted("6|2"), 0), ConfigError);
  EXPECT_THROW(whole_batches(counted("0|2"), 3), ShapeError);
}

TEST(Rows, AreMappedAndZipped) {
  const Array x = counted("3|2"), y = counted("3|");
  auto sum = [](const Array& row) { return Array::scalar(row.at(0) + row.at(1)); };
  const Array sums = map_rows(x, sum);
  EXPECT_EQ(to_string(sums.shape()), "3|");
  EXPECT_EQ(sums.values(), (Values{1, 5, 9}));
  const Array scaled = zip_rows(
      x, y, [](const Array& row, const Array& by) { return row.map([&](double v) { return v * by.item(); }); });
  EXPECT_EQ(to_string(scaled.shape()), "3|2");
  EXPECT_EQ(scaled.values(), (Values{0, 0, 2, 3, 8, 10}));
  EXPECT_THROW(zip_rows(x, counted("2|"), [](const Array& a, const Array&) { return a; }), ShapeError);
  EXPECT_THROW(map_rows(counted("0|2"), sum), ShapeError);
  int calls = 0;
  EXPECT_THROW(map_rows(x, [&](const Array&) { return counted(calls++ ? "2" : "3"); }), ShapeError);
}

TEST(Normalization, IsFittedOnceAndAppliedToOthers) {
  const Array train(parse_shape("4|2"), {0, 5, 2, 5, 4, 5, 6, 5}), test(parse_shape("1|2"), {3, 7});
  const Normalization each(train, Over::each_feature);
  EXPECT_EQ(each.mean(), (Values{3, 5}));
  EXPECT_EQ(each.deviation(), (Values{std::sqrt(5), 1})) << "what does not vary is only shifted";
  EXPECT_EQ(each(test).values(), (Values{0, 2}));
  const Array normal = each(train);
  double sum = 0, square = 0;
  for (int64_t i = 0; i < 4; ++i) sum += normal.at({i, 0}), square += normal.at({i, 0}) * normal.at({i, 0});
  EXPECT_NEAR(sum, 0, 1e-6);
  EXPECT_NEAR(square / 4, 1, 1e-6);
  const Normalization all(train, Over::everything);
  EXPECT_EQ(all.mean(), Values{4});
  EXPECT_EQ(all(counted("3|7")).size(), 21);
  EXPECT_THROW(each(counted("3|7")), ShapeError);
  EXPECT_THROW(Normalization(counted("0|2"), Over::everything), ShapeError);
  const Array pixels = unit_pixels(Array(parse_shape("3|"), {0, 51, 255}, DType::u8));
  EXPECT_EQ(pixels.values(), (Values{0, double(0.2f), 1}));
  EXPECT_THROW(unit_pixels(counted("3|")), DTypeError);
}

TEST(Batches, TheLastMayBeSmaller) {
  const Arrays arrays = {Array({.batch = {5}, .output = {2}}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), rows({0, 1, 2, 3, 4})};
  const std::vector<Arrays> parts = batches(arrays, 2);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1][0].values(), (std::vector<double>{4, 5, 6, 7}));
  EXPECT_EQ(parts[1][1].values(), (std::vector<double>{2, 3}));
  EXPECT_EQ(to_string(parts[2][0].shape()), "1|2");
  EXPECT_EQ(parts[2][1].values(), (std::vector<double>{4}));
  EXPECT_EQ(batches(arrays, 5).size(), 1u);
  EXPECT_THROW(batches(arrays, 0), ConfigError);
  EXPECT_THROW(batches({arrays[0], rows({1})}, 2), ShapeError);
}

}  // namespace
}  // namespace caravan::data
