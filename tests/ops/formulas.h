// Formulas of the op table, evaluated and differentiated by the rows of their ops.
#pragma once

#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "caravan/ops/op.h"
#include "caravan/ops/table.h"

namespace caravan {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double eval(Op op, double a, double b = 0, double c = 0);
double evaluate(const Formula& formula, std::span<const double> variables);
double evaluate(const char* text, std::span<const std::string_view> names, std::span<const double> variables);

// What each variable of the formula receives when its result receives 1, by the pullback rows.
std::vector<double> differentiate(const Formula& formula, std::span<const double> variables);

}  // namespace caravan
