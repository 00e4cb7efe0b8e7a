// What tests of exact numbers share: a device that computes in double, and values within a tolerance.
#pragma once

#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "checked_device.h"

namespace caravan {

inline const ContextOptions kInDouble = checked();  // the interpreter, and what it ran on the processor too

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

inline void expect_near(const Values& actual, const Values& expected, double tolerance = 1e-12) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}
inline void expect_near(const Array& actual, const Values& expected, double tolerance = 1e-12) {
  expect_near(actual.values(), expected, tolerance);
}

// first, first + 1, ...
inline Array count_from(double first, const char* shape, DType dtype = DType::f32) {
  Array out(parse_shape(shape), dtype);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, first + double(i));
  return out;
}

}  // namespace caravan
