// A suite generated from the op table: a new row is tested by being there. And what single ops promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <random>
#include <set>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"
#include "ops/formulas.h"

namespace caravan {

void PrintTo(const OpRow& row, std::ostream* out) { *out << row.name; }

namespace {

constexpr int kPoints = 200;

// g, a, b, c, y at a point.
std::array<double, 5> pullback_variables(const OpRow& row, double g, const std::array<double, 3>& at) {
  return {g, at[0], at[1], at[2], row.eval(at[0], at[1], at[2])};
}

bool near_kink(const OpRow& row, const std::array<double, 3>& at) {
  constexpr double margin = 0.02;
  for (const std::optional<double>& kink : row.avoid)
    if (kink && std::abs(at[0] - *kink) < margin) return true;
  if (row.avoid_ties)
    for (int i = 0; i < row.arity; ++i)
      for (int j = 0; j < i; ++j)
        if (std::abs(at[size_t(i)] - at[size_t(j)]) < margin) return true;
  if (row.avoid_integers) {
    const double twice = 2 * (row.arity == 2 ? at[0] / at[1] : at[0]);
    if (std::abs(twice - std::rint(twice)) < 4 * margin) return true;
  }
  return false;
}

class EveryOp : public testing::TestWithParam<OpRow> {
 protected:
  const OpRow& op() const { return param_; }
  std::array<double, 3> draw() {
    while (true) {
      std::array<double, 3> at{};
      for (int i = 0; i < op().arity; ++i) at[size_t(i)] = draw(i);
      if (!near_kink(op(), at)) return at;
    }
  }
  double draw(int operand) {
    const CheckDomain& domain = op().domain[size_t(operand)];
    return std::uniform_real_distribution<double>(domain.low, domain.high)(random_);
  }

 private:
  const OpRow param_ = GetParam();
  std::mt19937 random_{20240607};
};

TEST_P(EveryOp, PullbackIsTheDerivative) {
  for (int n = 0; n < kPoints; ++n) {
    const std::array<double, 3> at = draw();
    for (int k = 0; k < op().arity; ++k) {
      constexpr double h = 1e-5;
      std::array<double, 3> up = at, down = at;
      up[size_t(k)] += h;
      down[size_t(k)] -= h;
      const double numeric = (op().eval(up[0], up[1], up[2]) - op().eval(down[0], down[1], down[2])) / (2 * h);
      const double g = 1.7;
      const double analytic = evaluate(pullback(op().op, k), pullback_variables(op(), g, at));
      ASSERT_NEAR(analytic, g * numeric, 1e-7 * (1 + std::abs(g * numeric)))
          << op().name << " operand " << k << " at " << at[0] << ", " << at[1] << ", " << at[2];
    }
  }
}

// The pullback as a function of (g, a, b, c), y being a function of the operands, differentiated through the rows.
TEST_P(EveryOp, PullbackOfThePullbackIsTheSecondDerivative) {
  for (int n = 0; n < kPoints; ++n) {
    const std::array<double, 3> at = draw();
    for (int k = 0; k < op().arity; ++k) {
      const Formula& formula = pullback(op().op, k);
      const double g = 1.3;
      const std::array<double, 5> variables = pullback_variables(op(), g, at);
      const std::vector<double> received = differentiate(formula, variables);
      ASSERT_NEAR(received[0] * g, evaluate(formula, variables), 1e-10 * (1 + std::abs(received[0])))
          << op().name << ": a pullback is linear in g";
      for (int j = 0; j < op().arity; ++j) {
        constexpr double h = 1e-5;
        std::array<double, 3> up = at, down = at;
        up[size_t(j)] += h;
        down[size_t(j)] -= h;
        const double numeric = (evaluate(formula, pullback_variables(op(), g, up)) -
                                evaluate(formula, pullback_variables(op(), g, down))) /
                               (2 * h);
        std::array<double, 5> through_y = variables;
        through_y[0] = received[4];
        const double analytic = received[size_t(j + 1)] + evaluate(pullback(op().op, j), through_y);
        ASSERT_NEAR(analytic, numeric, 1e-6 * (1 + std::abs(numeric)))
            << op().name << " operands " << k << ", " << j << " at " << at[0] << ", " << at[1] << ", " << at[2];
      }
    }
  }
}

TEST_P(EveryOp, FactsHold) {
  const auto& f = op().eval;
  for (int n = 0; n < kPoints; ++n) {
    const double a = draw(0), b = draw(1), c = draw(2), other = draw(0);
    const auto near = [](double value) { return 1e-12 * (1 + std::abs(value)); };
    if (op().commutative) {
      ASSERT_EQ(f(a, b, 0), f(b, a, 0)) << op().name;
    }
    if (op().associative) {
      ASSERT_NEAR(f(f(a, b, 0), other, 0), f(a, f(b, other, 0), 0), near(f(f(a, b, 0), other, 0))) << op().name;
    }
    if (op().neutral) {
      ASSERT_EQ(f(a, *op().neutral, 0), a) << op().name;
    }
    if (op().zero_preserving) {
      ASSERT_EQ(f(0, b, c), 0) << op().name;
    }
    if (op().idempotent) {
      ASSERT_EQ(op().arity == 1 ? f(f(a, 0, 0), 0, 0) : f(a, a, 0), op().arity == 1 ? f(a, 0, 0) : a) << op().name;
    }
    if (op().monotone > 0) {
      ASSERT_LE(f(std::min(a, other), b, c), f(std::max(a, other), b, c)) << op().name;
    }
    if (op().monotone < 0) {
      ASSERT_GE(f(std::min(a, other), b, c), f(std::max(a, other), b, c)) << op().name;
    }
    if (op().result == ResultType::logic) {
      ASSERT_TRUE(f(a, b, c) == 0 || f(a, b, c) == 1) << op().name;
    }
  }
}

TEST_P(EveryOp, IsFoundByItsName) {
  EXPECT_EQ(find_op(op().name), op().op);
  EXPECT_EQ(&row(op().op), &op_rows()[size_t(op().op)]);
  const bool keyword = op().name == "not" || op().name == "and" || op().name == "or";
  EXPECT_EQ(op().function.empty(), !keyword);
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::ValuesIn(op_rows().begin(), op_rows().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Op, IsStableAtTheExtremes) {
  EXPECT_EQ(eval(Op::sigmoid, -1000), 0);
  EXPECT_EQ(eval(Op::sigmoid, 1000), 1);
  EXPECT_DOUBLE_EQ(eval(Op::sigmoid, -50), std::exp(-50.0));
  EXPECT_EQ(eval(Op::silu, -1000), 0);
  EXPECT_EQ(eval(Op::silu, 1000), 1000);
  EXPECT_EQ(eval(Op::gelu, 1000), 1000);
  EXPECT_EQ(eval(Op::gelu_tanh, 1e200), 1e200);
  EXPECT_DOUBLE_EQ(eval(Op::log1p, 1e-20), 1e-20);
  EXPECT_DOUBLE_EQ(eval(Op::expm1, 1e-20), 1e-20);
  EXPECT_TRUE(std::isnan(eval(Op::relu, kNaN)));
  for (Op op : {Op::sigmoid, Op::silu, Op::gelu, Op::gelu_tanh, Op::tanh, Op::erf})
    for (double a : {-1e200, -1000.0, 1000.0, 1e200})
      EXPECT_TRUE(std::isfinite(evaluate(pullback(op, 0), pullback_variables(row(op), 1, {a}))))
          << row(op).name << " at " << a;
}

TEST(Op, NaNWinsMaxAndMin) {
  for (Op op : {Op::max, Op::min}) {
    EXPECT_TRUE(std::isnan(eval(op, kNaN, 1)));
    EXPECT_TRUE(std::isnan(eval(op, 1, kNaN)));
  }
  for (double x : {-2.0, 0.0, 2.0}) {
    EXPECT_TRUE(std::isnan(eval(Op::clamp, kNaN, -1, 1)));
    EXPECT_TRUE(std::isnan(eval(Op::clamp, x, kNaN, 1)));
    EXPECT_TRUE(std::isnan(eval(Op::clamp, x, -1, kNaN)));
  }
  EXPECT_EQ(eval(Op::clamp, 5, 2, 1), 1);  // bounds in the wrong order: min(max(a, b), c)
}

TEST(Op, RoundsHalvesToEvenAndTakesTheSignOfTheModulus) {
  struct {
    double in, out;
  } rounds[] = {{0.5, 0}, {1.5, 2}, {2.5, 2}, {-0.5, 0}, {-1.5, -2}, {0.49, 0}, {2.51, 3}};
  for (auto [in, out] : rounds) EXPECT_EQ(eval(Op::round, in), out) << in;
  struct {
    double a, b, out;
  } mods[] = {{7, 3, 1}, {-7, 3, 2}, {7, -3, -2}, {-7, -3, -1}, {6, 3, 0}, {5.5, 2, 1.5}};
  for (auto [a, b, out] : mods) EXPECT_EQ(eval(Op::mod, a, b), out) << a << " mod " << b;
}

TEST(Op, PowHasNoNaNInItsDerivatives) {
  struct {
    double a, b, da, db;
  } cases[] = {{0, 0, 0, 0},
               {0, 1, 1, 0},
               {0, 2, 0, 0},
               {0, 3, 0, 0},
               {-2, 3, 12, 0},
               {-2, 0, 0, 0},
               {-1, 2, -2, 0},
               {3, 0, 0, std::log(3.0)},
               {2, 2, 4, 4 * std::log(2.0)}};
  for (auto [a, b, da, db] : cases) {
    const std::array<double, 5> at = pullback_variables(row(Op::pow), 1, {a, b});
    EXPECT_DOUBLE_EQ(evaluate(pullback(Op::pow, 0), at), da) << a << "^" << b;
    EXPECT_DOUBLE_EQ(evaluate(pullback(Op::pow, 1), at), db) << a << "^" << b;
    for (int k : {0, 1})
      for (double second : differentiate(pullback(Op::pow, k), at))
        EXPECT_TRUE(std::isfinite(second)) << a << "^" << b << " operand " << k;
  }
  // d2/da2 of a^2 is 2, also at 0; d2/(da db) of a^b at b = 0 is 1/a.
  EXPECT_EQ(differentiate(pullback(Op::pow, 0), pullback_variables(row(Op::pow), 1, {0, 2}))[1], 2);
  EXPECT_EQ(differentiate(pullback(Op::pow, 0), pullback_variables(row(Op::pow), 1, {4, 0}))[2], 0.25);
}

TEST(Op, GradientsOfTiesGoOneWay) {
  for (Op op : {Op::max, Op::min}) {
    const std::array<double, 5> at = pullback_variables(row(op), 3, {1, 1});
    EXPECT_EQ(evaluate(pullback(op, 0), at), 3);
    EXPECT_EQ(evaluate(pullback(op, 1), at), 0);
  }
  for (double a : {-1.0, 0.0, 0.5, 1.0, 2.0}) {  // clamp's operands share g, whole
    const std::array<double, 5> at = pullback_variables(row(Op::clamp), 3, {a, 0, 1});
    EXPECT_EQ(evaluate(pullback(Op::clamp, 0), at) + evaluate(pullback(Op::clamp, 1), at) +
                  evaluate(pullback(Op::clamp, 2), at),
              3)
        << a;
  }
  // Nothing is multiplied by a mask: an infinite cotangent does not become NaN where it is not taken.
  EXPECT_EQ(evaluate(pullback(Op::relu, 0), pullback_variables(row(Op::relu), kInf, {-1})), 0);
}

TEST(Op, WhatHasNoDerivativeSaysZero) {
  const std::set<Op> flat = {Op::sign, Op::floor, Op::ceil, Op::round, Op::trunc, Op::not_, Op::eq,
                             Op::ne,   Op::lt,    Op::le,   Op::gt,    Op::ge,    Op::and_, Op::or_};
  for (const OpRow& row : op_rows())
    for (int k = 0; k < row.arity; ++k)
      EXPECT_EQ(pullback_is_zero(row.op, k), flat.count(row.op) > 0 || (row.op == Op::where && k == 0))
          << row.name << " operand " << k;
  EXPECT_THROW(pullback(Op::sin, 1), InternalError);
  EXPECT_EQ(find_op("sinus"), std::nullopt);
}

}  // namespace
}  // namespace caravan
