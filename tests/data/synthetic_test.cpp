// Data that is made.
#include "caravan/data/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/counted.h"

namespace caravan::data {
namespace {

TEST(Synthetic, RingsArmsAndDiscsAreWhereTheyShouldBe) {
  const LabelledPoints rings = circles({.points = 400, .inner = 0.4, .noise = 0.05, .seed = 2});
  const LabelledPoints arms = spirals({.points = 400, .turns = 1, .noise = 0, .seed = 2});
  const LabelledPoints inside = disc({.points = 4000, .seed = 2});
  const LabelledPoints pairs = products({.points = 4000, .seed = 2});
  auto at = [](const LabelledPoints& p, int64_t i) {
    return std::array{p.points.at({i, 0}), p.points.at({i, 1}), p.labels.at({i, 0})};
  };
  double label_sum = 0;
  for (int64_t i = 0; i < 400; ++i) {
    const auto [x, y, label] = at(rings, i);
    EXPECT_NEAR(std::hypot(x, y), label > 0 ? 0.4 : 1, 0.0708);
    label_sum += label;
    const auto [sx, sy, arm] = at(arms, i);
    const double radius = std::hypot(sx, sy), angle = 2 * 3.141592653589793 * (radius - 0.1) / 0.9;
    EXPECT_NEAR(sx, arm * radius * std::cos(angle), 1e-5);
    EXPECT_NEAR(sy, arm * radius * std::sin(angle), 1e-5);
  }
  EXPECT_EQ(label_sum, 0);
  double in = 0, x_sum = 0;
  for (int64_t i = 0; i < 4000; ++i) {
    const auto [x, y, label] = at(inside, i);
    EXPECT_TRUE(std::fabs(x) <= 2 && std::fabs(y) <= 2);
    EXPECT_EQ(label, x * x + y * y < 1.4 * 1.4 ? 1 : -1) << x << ' ' << y;
    in += label > 0, x_sum += x;
    const auto [a, b, product] = at(pairs, i);
    EXPECT_TRUE(a >= 0 && a < 3 && b >= 0 && b < 3);
    EXPECT_EQ(product, float(a) * float(b));
  }
  EXPECT_NEAR(in / 4000, 3.141592653589793 * 1.96 / 16, 0.03);
  EXPECT_NEAR(x_sum / 4000, 0, 0.1);
}

TEST(Synthetic, IsAFunctionOfItsOptions) {
  auto all = [](uint64_t seed) {
    Arrays out;
    for (const LabelledPoints& p :
         {half_moons({.points = 20, .seed = seed}), circles({.points = 20, .seed = seed}),
          spirals({.points = 20, .seed = seed}), disc({.points = 20, .seed = seed}),
          products({.points = 20, .seed = seed}), products({.points = 20, .seed = seed, .stream = "other"})})
      out.push_back(p.points);
    return out;
  };
  const Arrays once = all(1), again = all(1), other = all(2);
  EXPECT_TRUE(same(once, again));
  for (size_t i = 0; i < once.size(); ++i) EXPECT_FALSE(same(once[i], other[i])) << i;
  EXPECT_FALSE(same(once[4], once[5]));
  for (int64_t wrong : {-2, 0, 1, 7}) {
    EXPECT_THROW(half_moons({.points = wrong}), ConfigError);
    EXPECT_THROW(circles({.points = wrong}), ConfigError);
    EXPECT_THROW(spirals({.points = wrong}), ConfigError);
  }
  EXPECT_THROW(disc({.points = 0}), ConfigError);
  EXPECT_THROW(products({.points = 0}), ConfigError);
}

}  // namespace
}  // namespace caravan::data
