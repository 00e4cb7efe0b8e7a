// Elementary functions on a GPU: as near to the exact value as docs/gpu.md says, with the special values of C99. Where
// no GPU is asked for (./dev test --cuda) this is skipped.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiled_device.h"

namespace caravan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

struct Function {
  const char* name;
  Tensor (*on_gpu)(const Tensor&);
  double (*exact)(double);
  double bound;      // in units in the last place
  double low, high;  // of the points
  std::vector<std::pair<double, double>> special;
};
const std::vector<Function>& functions() {
  static const std::vector<Function> out = {
      {"exp",
       [](const Tensor& x) { return exp(x); },
       std::exp,
       2,
       -87,
       88,
       {{kInfinity, kInfinity}, {-kInfinity, 0}, {kNan, kNan}, {0, 1}, {100, kInfinity}}},
      {"exp2",
       [](const Tensor& x) { return exp2(x); },
       std::exp2,
       2,
       -125,
       127,
       {{kInfinity, kInfinity}, {-kInfinity, 0}, {kNan, kNan}, {3, 8}}},
      {"expm1",
       [](const Tensor& x) { return expm1(x); },
       std::expm1,
       2,
       -10,
       80,
       {{kInfinity, kInfinity}, {-kInfinity, -1}, {kNan, kNan}, {0, 0}}},
      {"log",
       [](const Tensor& x) { return log(x); },
       std::log,
       2,
       1e-30,
       100,
       {{kInfinity, kInfinity}, {0, -kInfinity}, {-1, kNan}, {kNan, kNan}, {1, 0}}},
      {"log2",
       [](const Tensor& x) { return log2(x); },
       std::log2,
       2,
       1e-30,
       100,
       {{kInfinity, kInfinity}, {0, -kInfinity}, {-1, kNan}, {8, 3}}},
      {"log1p",
       [](const Tensor& x) { return log1p(x); },
       std::log1p,
       2,
       -0.9,
       100,
       {{kInfinity, kInfinity}, {-1, -kInfinity}, {-2, kNan}, {0, 0}}},
      {"tanh",
       [](const Tensor& x) { return tanh(x); },
       std::tanh,
       2,
       -12,
       12,
       {{kInfinity, 1}, {-kInfinity, -1}, {kNan, kNan}, {0, 0}}},
      {"erf",
       [](const Tensor& x) { return erf(x); },
       std::erf,
       2,
       -5,
       5,
       {{kInfinity, 1}, {-kInfinity, -1}, {kNan, kNan}, {0, 0}}},
  };
  return out;
}
// The distance of x from the exact value, in the distances of neighbouring f32 there.
double units_off(double x, double exact) {
  const float near = float(exact);
  return std::fabs(x - exact) / double(std::nextafter(std::fabs(near), INFINITY) - std::fabs(near));
}

TEST(GpuFunctions, AreAFewUnitsOffAtMost) {
  if (!on_gpu()) GTEST_SKIP() << "CARAVAN_TEST_DEVICE is not cuda";
  Context ctx({.device = "cuda"});
  for (const Function& row : functions()) {
    constexpr int kPoints = 200'000;
    std::vector<double> points;
    for (int k = 0; k < kPoints; ++k) {
      const double even = row.low + (row.high - row.low) * (k + 0.5) / kPoints;
      points.push_back(double(float(k % 2 ? even : even * std::ldexp(1.0, -(k / 2) % 24))));
    }
    for (double& x : points) x = std::min(std::max(x, double(float(row.low))), double(float(row.high)));
    for (const auto& [x, value] : row.special) points.push_back(x);
    const Array made = ctx.eval(row.on_gpu(tensor(Array::vector(points, DType::f32))));
    double worst = 0;
    for (int k = 0; k < kPoints; ++k) worst = std::max(worst, units_off(made.at(k), row.exact(points[size_t(k)])));
    EXPECT_LE(worst, row.bound) << row.name;
    for (size_t k = 0; k < row.special.size(); ++k) {
      const double is = made.at(kPoints + int64_t(k)), wanted = row.special[k].second;
      EXPECT_TRUE(is == wanted || (std::isnan(is) && std::isnan(wanted)))
          << row.name << " of " << row.special[k].first << " is " << is;
    }
  }
}

}  // namespace
}  // namespace caravan
