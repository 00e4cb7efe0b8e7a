// One case per row of the op table, operand and order, with values from the row's domain and away from its kinks.
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/check/draw.h"
#include "caravan/check/gradcheck.h"
#include "caravan/ops/op.h"
#include "caravan/tensor/graph.h"

namespace caravan {

namespace {

constexpr int64_t kElements = 8;
constexpr double kMargin = 0.03;  // several times the reach of the differences

bool near(double a, double b) { return std::abs(a - b) < kMargin; }
bool near_half_integer(double a) { return near(2 * a, std::round(2 * a)); }

// Is the point away from the kinks and poles of its row?
bool is_smooth(const OpRow& row, const std::vector<double>& point) {
  for (const std::optional<double>& kink : row.avoid)
    if (kink && near(point[0], *kink)) return false;
  for (size_t i = 0; row.avoid_ties && i < point.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (near(point[i], point[j])) return false;
  return !row.avoid_integers || !near_half_integer(row.arity == 2 ? point[0] / point[1] : point[0]);
}

std::vector<double> smooth_point(const OpRow& row, int64_t element) {
  for (int64_t attempt = 0; attempt < 1000; ++attempt) {
    std::vector<double> point;
    for (size_t k = 0; k < size_t(row.arity); ++k)
      point.push_back(
          draw(std::string(row.name) + "." + "abc"[k], element, attempt, row.domain[k].low, row.domain[k].high));
    if (is_smooth(row, point)) return point;
  }
  throw InternalError("the row of " + std::string(row.name) + " has a domain without a smooth point.");
}

// At first order one operand is a parameter, at second order all are: mixed derivatives count too.
Tensor applied(const OpRow& row, size_t by, int order) {
  std::vector<Array> values(size_t(row.arity), Array(parse_shape(std::to_string(kElements)), DType::f64));
  for (int64_t e = 0; e < kElements; ++e) {
    std::vector<double> point = smooth_point(row, e);
    if (row.result == ResultType::select && by != 0 && e % 2 == 1) point[0] = 0;  // a condition takes both values
    for (size_t k = 0; k < values.size(); ++k) values[k].set(e, point[k]);
  }
  std::vector<Operand> operands;
  for (size_t k = 0; k < values.size(); ++k) {
    const std::string name(1, "abc"[k]);
    operands.push_back(k == by || order == 2 ? param(name, values[k]) : tensor(values[k], name));
  }
  return pointwise(row.op, operands);
}

}  // namespace

std::vector<GradientCase> op_gradient_cases() {
  std::vector<GradientCase> out;
  for (const OpRow& row : op_rows())
    for (size_t by = 0; by < size_t(row.arity); ++by)
      for (int order : {1, 2})
        out.push_back({"op " + std::string(row.name), std::string("by ") + "abc"[by], order,
                       [&row, by, order] { return applied(row, by, order); }});
  return out;
}

}  // namespace caravan
