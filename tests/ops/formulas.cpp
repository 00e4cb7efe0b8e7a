#include "ops/formulas.h"

#include <gtest/gtest.h>

namespace caravan {

double eval(Op op, double a, double b, double c) { return row(op).eval(a, b, c); }

namespace {

// The values of all entries of a formula.
std::vector<double> entry_values(const Formula& formula, std::span<const double> variables) {
  std::vector<double> values;
  for (int i = 0; i < formula.size; ++i) {
    const Formula::Entry& entry = formula.entries[size_t(i)];
    switch (entry.leaf) {
      case Formula::Leaf::constant: values.push_back(entry.constant); break;
      case Formula::Leaf::variable: values.push_back(variables[entry.variable]); break;
      case Formula::Leaf::none:
        values.push_back(eval(entry.op, values[entry.args[0]], values[entry.args[1]], values[entry.args[2]]));
    }
  }
  return values;
}

}  // namespace

double evaluate(const Formula& formula, std::span<const double> variables) {
  return entry_values(formula, variables).back();
}

double evaluate(const char* text, std::span<const std::string_view> names, std::span<const double> variables) {
  const CompiledFormula compiled = compile_formula(text, names, op_rows());
  EXPECT_EQ(compiled.error, nullptr) << text << " at " << compiled.at;
  return evaluate(compiled.formula, variables);
}

std::vector<double> differentiate(const Formula& formula, std::span<const double> variables) {
  const std::vector<double> values = entry_values(formula, variables);
  std::vector<double> received(values.size(), 0.0), out(variables.size(), 0.0);
  received.back() = 1;
  for (int i = formula.size - 1; i >= 0; --i) {
    const Formula::Entry& entry = formula.entries[size_t(i)];
    if (entry.leaf == Formula::Leaf::variable) out[entry.variable] += received[size_t(i)];
    if (entry.leaf != Formula::Leaf::none) continue;
    const double local[5] = {received[size_t(i)], values[entry.args[0]], values[entry.args[1]], values[entry.args[2]],
                             values[size_t(i)]};
    for (int k = 0; k < row(entry.op).arity; ++k) received[entry.args[k]] += evaluate(pullback(entry.op, k), local);
  }
  return out;
}

}  // namespace caravan
