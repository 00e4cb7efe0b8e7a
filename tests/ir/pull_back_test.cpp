// Derivatives of bodies.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>

#include "caravan/base/error.h"
#include "caravan/ir/program.h"
#include "caravan/ops/table.h"
#include "ir/bodies.h"

namespace caravan::ir {
namespace {

// A random expression over x, y, z from ops that are smooth everywhere.
Body random_body(std::mt19937& random) {
  const Op ops[] = {Op::neg,  Op::sin, Op::cos, Op::tanh, Op::sigmoid, Op::square, Op::exp2, Op::gelu,
                    Op::silu, Op::erf, Op::add, Op::sub,  Op::mul,     Op::mul,    Op::add,  Op::fma};
  Body b;
  std::vector<int> pool = {b.load(0), b.load(1), b.load(2), b.constant(0.5), b.cast(DType::f64, b.load(0))};
  auto pick = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  for (int k = 0; k < 7; ++k) {
    const Op op = ops[pick(std::size(ops))];
    int args[3];
    for (int& arg : args) arg = pool[pick(pool.size())];
    int made = b.apply(op, {args, size_t(row(op).arity)});
    made = b.apply(Op::tanh, std::array{made});  // keeps values and derivatives of order 1
    pool.push_back(made);
  }
  int result = pool[5];
  for (size_t k = 6; k < pool.size(); ++k) result = b.apply(Op::add, std::array{result, pool[k]});
  b.finish(result);
  return b;
}

// d body / d operand as a body of its own, or nothing.
std::optional<Body> derivative(const Body& of, int operand) {
  Body into = of;
  const int flows = pull_back(into, of, operand, into.constant(1));
  if (flows < 0) return std::nullopt;
  into.finish(flows);
  return into;
}

double difference(const Body& of, std::array<double, 3> at, size_t operand) {
  const double h = 1e-5;
  std::array<double, 3> up = at, down = at;
  up[operand] += h;
  down[operand] -= h;
  return (evaluate(of, up, 0) - evaluate(of, down, 0)) / (2 * h);
}

TEST(PullBack, FirstAndSecondOrderAgreeWithDifferences) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> draw(-1.5, 1.5);
    const Body f = random_body(random);
    const std::array<double, 3> at = {draw(random), draw(random), draw(random)};
    for (int j = 0; j < 3; ++j) {
      const auto df = derivative(f, j);
      EXPECT_EQ(df.has_value(), f.reads(j));
      if (!df) continue;
      EXPECT_NEAR(evaluate(*df, at, 0), difference(f, at, size_t(j)), 1e-7)
          << "seed " << seed << ": " << to_string(f, kXyz);
      for (int k = 0; k < 3; ++k) {
        const auto ddf = derivative(*df, k);
        EXPECT_NEAR(ddf ? evaluate(*ddf, at, 0) : 0.0, difference(*df, at, size_t(k)), 1e-6)
            << "seed " << seed << ": " << to_string(*df, kXyz);
      }
    }
  }
}

TEST(PullBack, TheCotangentMayBeAnyEntry) {
  const Body b = body("x * y");
  Body into = b;
  const int g = into.load(2);
  into.finish(pull_back(into, b, 1, g));
  EXPECT_EQ(to_string(into, kXyz), "z * x");
}

TEST(PullBack, NothingFlows) {
  for (const char* text :
       {"y + 1", "floor(x)", "x < y", "where(x, y, z)", "i32(x)", "f32(i32(x))", "f32(x < y)", "position"}) {
    const Body b = body(text);
    Body into = b;
    EXPECT_EQ(pull_back(into, b, 0, into.constant(1)), -1) << text;
  }
  const Body b = body("f32(x)");
  Body into = b;
  EXPECT_EQ(pull_back(into, b, 0, into.constant(1), std::array{DType::i32}), -1);
}

TEST(PullBack, CastsBackToTheOperandsPrecision) {
  const Body b = body("f32(x) * y");
  Body into = b;
  into.finish(pull_back(into, b, 0, into.load(2), std::array{DType::bf16, DType::f32}));
  EXPECT_EQ(to_string(into, kXyz), "bf16(z * y)");
  Body unknown = b;
  unknown.finish(pull_back(unknown, b, 0, unknown.load(2)));
  EXPECT_EQ(to_string(unknown, kXyz), "z * y");
}

}  // namespace
}  // namespace caravan::ir
