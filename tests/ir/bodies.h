// What the tests of bodies share.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "caravan/ir/program.h"

namespace caravan::ir {

using Names = std::vector<std::string>;
inline const Names kXyz = {"x", "y", "z"};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// To the bit, but for NaN.
inline bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

inline Body body(const std::string& text, const Names& names = kXyz) { return parse_body(text, names); }

}  // namespace caravan::ir
