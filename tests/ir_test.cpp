// The intermediate representation: terms, bodies, their derivatives and their text, the printer, equality, the
// verifier.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "caravan/base/error.h"
#include "caravan/ir/program.h"
#include "caravan/ops/table.h"

namespace caravan::ir {
namespace {

using Names = std::vector<std::string>;
const Names kXyz = {"x", "y", "z"};
const double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

Body body(const std::string& text, const Names& names = kXyz) { return parse_body(text, names); }

// ---------------------------------------------------------------- terms

TEST(Term, NormalFormIsSortedAndHasNoZeros) {
  const Term a = Term::iterator(2, 3) + Term::symbol(0) + Term::iterator(0) + Term::number(4);
  const Term b = Term::number(4) + Term::iterator(0) + Term::symbol(0) + Term::iterator(2) + Term::iterator(2, 2);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.parts.size(), 3u);
  EXPECT_EQ(a - b, Term{});
  EXPECT_TRUE((a - b).is_constant());
  EXPECT_EQ(a * 0, Term{});
  EXPECT_EQ(a * 2, a + a);
  EXPECT_EQ(Term::iterator(0, 0), Term{});
  EXPECT_FALSE(a.has_load());
  EXPECT_TRUE((a + Term::load(1)).has_load());
}

TEST(Term, Range) {
  const std::vector<int64_t> extents = {5, 3, 0}, symbols = {10, 0};
  struct Row {
    Term term;
    int64_t low, high;
  };
  const Row rows[] = {
      {Term::number(7), 7, 7},
      {Term::iterator(0, 2) + Term::iterator(1) + Term::number(-1), -1, 9},
      {Term::iterator(0) - Term::iterator(1), -2, 4},
      {Term::symbol(0, 4) + Term::iterator(1), 0, 38},
      {Term::symbol(1), 0, kUnbounded},
      {Term::number(3) - Term::symbol(1), -kUnbounded, 3},
      {Term::load(0), -kUnbounded, kUnbounded},
      {Term::iterator(2), 0, 0},
      {Term::iterator(0, INT64_MAX / 2), 0, kUnbounded},
  };
  for (const Row& row : rows) {
    const Interval got = range(row.term, extents, symbols);
    EXPECT_EQ(got.low, row.low);
    EXPECT_EQ(got.high, row.high);
  }
  EXPECT_THROW(range(Term::iterator(3), extents, symbols), InternalError);
}

TEST(Term, ConditionsProveMoreThanIntervals) {
  const Term i = Term::iterator(0), j = Term::iterator(1), at = Term::symbol(0), id = Term::load(0);
  auto n = [](int64_t value) { return Term::number(value); };
  struct Row {
    const char* name;
    Term term;
    std::vector<Term> where;
    bool proved;
  };
  const Row rows[] = {
      // i < 4, j < 3
      {"an interval alone", i + j, {}, true},
      {"an interval that reaches below 0", i - j, {}, false},
      {"the condition itself", i - j, {i - j}, true},
      {"one that asks for more", i - j + n(1), {i - j}, true},
      {"one that asks for less", i - j - n(1), {i - j}, false},
      {"a multiple and a rest", i * 2 - j * 2 + n(1), {i - j}, true},
      {"half of one", i - j, {i * 2 - j * 2}, false},  // true, but not seen: multiples are whole
      {"its opposite", j - i, {i - j}, false},
      {"a condition and an interval", i, {i - j}, true},
      {"two conditions", i - j + at - n(5), {at - i - n(5), i * 2 - j}, true},
      {"a condition that is never true", n(-1), {n(-1)}, true},
      {"a symbol without a range", n(9) - at, {n(8) - at}, true},
      {"an index tensor, whose condition is tested too late", i - j, {id - j, i - id}, false},
  };
  for (const Row& row : rows) EXPECT_EQ(is_nonnegative(row.term, row.where, {4, 3}, {0}), row.proved) << row.name;
}
TEST(Term, WhatIsProvedIsTrue) {
  std::mt19937 random(1);
  auto pick = [&](int low, int high) { return low + int(random() % uint32_t(high - low + 1)); };
  auto term = [&] {
    Term out = Term::number(pick(-4, 4));
    for (int k = 0; k < 3; ++k) out.add(Term::Part::Kind::iterator, k, pick(-3, 3));
    return out;
  };
  int proved = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::vector<int64_t> extents = {pick(1, 5), pick(1, 5), pick(1, 5)};
    std::vector<Term> where;
    for (int k = pick(0, 4); k > 0; --k) where.push_back(term());
    Term wanted = term();
    if (!where.empty() && pick(0, 1)) wanted = where[0] * pick(1, 3) + Term::iterator(pick(0, 2), pick(-1, 2));
    if (!is_nonnegative(wanted, where, extents, {})) continue;
    ++proved;
    auto value = [](const Term& t, const int64_t* at) {
      int64_t out = t.constant;
      for (const Term::Part& part : t.parts) out += part.coefficient * at[part.which];
      return out;
    };
    for (int64_t point = 0; point < extents[0] * extents[1] * extents[2]; ++point) {
      const int64_t at[] = {point % extents[0], point / extents[0] % extents[1], point / extents[0] / extents[1]};
      const bool inside = std::ranges::all_of(where, [&](const Term& t) { return value(t, at) >= 0; });
      ASSERT_TRUE(!inside || value(wanted, at) >= 0) << "round " << round;
    }
  }
  EXPECT_GT(proved, 1000);
}
TEST(Term, Printing) {
  const Names iterators = {"oh", "kh"}, symbols = {"batch"}, operands = {"x", "ids[oh]"};
  auto text = [&](const Term& term) { return to_string(term, iterators, symbols, operands); };
  EXPECT_EQ(text(Term{}), "0");
  EXPECT_EQ(text(Term::number(-3)), "-3");
  EXPECT_EQ(text(Term::iterator(0, 2) + Term::iterator(1) - Term::number(1)), "2*oh + kh - 1");
  EXPECT_EQ(text(Term::iterator(1) - Term::iterator(0)), "kh - oh");
  EXPECT_EQ(text(Term::number(4) - Term::iterator(0)), "4 - oh");
  EXPECT_EQ(text(Term::number(-4) - Term::iterator(0, 3)), "-3*oh - 4");
  EXPECT_EQ(text(Term::symbol(0, 10) + Term::iterator(0)), "oh + 10*batch");
  EXPECT_EQ(text(Term::load(1) + Term::number(1)), "ids[oh] + 1");
}

// ---------------------------------------------------------------- bodies

TEST(Body, EqualEntriesAreOne) {
  Body b;
  const int x = b.load(0);
  const int sum = b.apply(Op::add, std::array{x, b.constant(1)});
  EXPECT_EQ(b.load(0), x);
  EXPECT_EQ(b.apply(Op::add, std::array{x, b.constant(1)}), sum);
  EXPECT_EQ(b.constant(kNan), b.constant(kNan));
  EXPECT_NE(b.constant(0.0), b.constant(-0.0));
  EXPECT_EQ(b.position(), b.position());
  EXPECT_EQ(b.cast(DType::f16, b.cast(DType::f16, x)), b.cast(DType::f16, x));
}

TEST(Body, FinishDropsWhatTheResultDoesNotNeed) {
  Body b;
  const int x = b.load(0);
  b.apply(Op::exp, std::array{b.load(1)});
  const int y = b.apply(Op::sin, std::array{x});
  b.constant(3);
  b.finish(y);
  EXPECT_EQ(b, Body::op(Op::sin));
  EXPECT_TRUE(b.reads(0));
  EXPECT_FALSE(b.reads(1));
  EXPECT_FALSE(b.uses_position());
  EXPECT_TRUE(Body::number(2).is_constant(2));
  EXPECT_FALSE(Body::number(-0.0).is_constant(0));
  EXPECT_FALSE(b.is_constant(0));
}

TEST(Body, RefusesEntriesThatDoNotExist) {
  Body b;
  b.load(0);
  EXPECT_THROW(b.apply(Op::add, std::array{0, 1}), InternalError);
  EXPECT_THROW(b.apply(Op::add, std::array{0}), InternalError);
  EXPECT_THROW(b.cast(DType::f32, 5), InternalError);
  EXPECT_THROW(b.finish(3), InternalError);
}

TEST(Body, EvaluatesEveryRow) {
  const double args[] = {0.7, 1.3, 2.1};
  for (const OpRow& row : op_rows())
    EXPECT_TRUE(same(evaluate(Body::op(row.op), args, 0), row.eval(0.7, 1.3, 2.1))) << row.name;
  EXPECT_EQ(evaluate(body("position * 2 + x"), args, 5), 10.7);
  EXPECT_EQ(evaluate(body("i32(x * 10)"), args, 0), 7);
}

TEST(Body, ConstantsFoldWhereTheNumberMeansTheSamePrecision) {
  EXPECT_TRUE(body("2 * 3 + 1").is_constant(7));
  EXPECT_TRUE(body("1 / 4").is_constant(0.25));
  EXPECT_FALSE(body("4 / 2").is_constant(2));  // of the reals: i32 * (4 / 2) is f32, i32 * 2 is i32
  EXPECT_FALSE(body("1 < 2").is_constant(1));  // bool
  EXPECT_EQ(to_string(body("x * 0"), kXyz), "x * 0");
  EXPECT_EQ(to_string(body("x + 0"), kXyz), "x + 0");
}

TEST(Body, FormulasAreSimplifiedOnlyWhereExact) {
  // d(x * 1)/dx with the cotangent 1; + 0 stays, because -0 + 0 is 0.
  auto derivative = [](const std::string& text, double g) {
    const Body b = body(text);
    Body into = b;
    into.finish(pull_back(into, b, 0, into.constant(g)));
    return to_string(into, kXyz);
  };
  EXPECT_EQ(derivative("x * y", 1), "y");
  EXPECT_EQ(derivative("x * 3", 2), "6");
  EXPECT_EQ(derivative("-(-x * y)", 1), "y");
  EXPECT_EQ(derivative("x * x", 1), "x + x");
  EXPECT_EQ(derivative("x * 0", 1), "0");
  EXPECT_EQ(derivative("tanh(x)", 1), "1 - square(tanh(x))");
}

TEST(Body, RenamingMayMergeOperands) {
  const std::array swapped = {1, 0}, merged = {0, 0};
  EXPECT_EQ(body("x - y").with_operands(swapped), body("y - x"));
  EXPECT_EQ(body("exp(x) + exp(y)").with_operands(merged), body("exp(x) + exp(x)"));
}

TEST(Body, ThePositionMayBeReadFromAnOperand) {
  EXPECT_EQ(body("where(position == x, y, position)").with_position(2), body("where(z == x, y, z)"));
}

TEST(Body, TypeFollowsThePromotionRules) {
  const bool strong[] = {false, false, false}, weak_y[] = {false, true, false};
  struct Row {
    const char* text;
    DType x, y;
    bool weak;
    DType expected;
  };
  const Row rows[] = {
      {"x + y", DType::f16, DType::bf16, false, DType::f32},
      {"x + y", DType::i32, DType::f32, true, DType::f32},
      {"x + y", DType::i32, DType::i32, true, DType::i32},
      {"x * 2", DType::i64, DType::f32, false, DType::i64},
      {"x * 0.5", DType::i64, DType::f32, false, DType::f32},
      {"x * 0.5", DType::f16, DType::f32, false, DType::f16},
      {"x * (1 + 2)", DType::u8, DType::f32, false, DType::u8},
      {"x * (4 / 2)", DType::u8, DType::f32, false, DType::f32},
      {"x * where(y, 1, 0)", DType::i32, DType::f32, false, DType::i32},
      {"x < y", DType::f32, DType::f64, false, DType::boolean},
      {"where(x > 0, y, 0)", DType::f32, DType::f64, false, DType::f64},
      {"exp(x)", DType::i32, DType::f32, false, DType::f32},
      {"bf16(x)", DType::i32, DType::f32, false, DType::bf16},
      {"1", DType::i32, DType::f32, false, DType::f32},
      {"position", DType::i32, DType::f32, false, DType::i64},
  };
  for (const Row& row : rows) {
    const DType operands[] = {row.x, row.y, DType::f32};
    EXPECT_EQ(name(type_of(body(row.text), operands, row.weak ? weak_y : strong)), name(row.expected)) << row.text;
  }
}

// ---------------------------------------------------------------- text

TEST(BodyText, MinimalParentheses) {
  struct Row {
    const char *text, *printed;
  };
  const Row rows[] = {
      {"(x * y) + z", "x * y + z"},
      {"x * (y + z)", "x * (y + z)"},
      {"x - (y - z)", "x - (y - z)"},
      {"(x - y) - z", "x - y - z"},
      {"x / (y * z)", "x / (y * z)"},
      {"-(x + y)", "-(x + y)"},
      {"(-x) * y", "-x * y"},
      {"-(x * y)", "-(x * y)"},
      {"x - -2", "x - -2"},
      {"-(-x)", "--x"},
      {"max(x, 0) * y", "max(x, 0) * y"},
      {"where((x < y) && !=", nullptr},
      {"where(x < y && y < z || x == 0, x, -inf)", "where(x < y && y < z || x == 0, x, -inf)"},
      {"f32(x + 1) * nan", "f32(x + 1) * nan"},
      {"x * 1e30 + 0.1", "x * 1e+30 + 0.1"},
      {"position - x", "position - x"},
      {"not(x)", "not(x)"},
  };
  for (const Row& row : rows) {
    if (!row.printed) {
      EXPECT_THROW(body(row.text), SpecError) << row.text;
      continue;
    }
    EXPECT_EQ(to_string(body(row.text), kXyz), row.printed);
    EXPECT_EQ(to_string(body(row.printed), kXyz), row.printed);
  }
}

TEST(BodyText, NamesMayBeAccesses) {
  const Names names = {"w[o, i]", "encoder.0.w", "encoder", "max"};
  EXPECT_EQ(to_string(body("w[o, i] * encoder.0.w - encoder", names), names), "w[o, i] * encoder.0.w - encoder");
  EXPECT_EQ(to_string(body("max(max, encoder)", names), names), "max(max, encoder)");
}

TEST(BodyText, EveryRowRoundTripsInEveryPlace) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> draw(-2, 2);
  for (const OpRow& row : op_rows()) {
    // The row above, left of, right of and below each other row.
    for (const OpRow& other : op_rows()) {
      Body b;
      const int loads[] = {b.load(0), b.load(1), b.load(2)};
      const int inner = b.apply(other.op, {loads, size_t(other.arity)});
      for (int place = 0; place < row.arity; ++place) {
        Body outer = b;
        int args[] = {loads[1], loads[2], loads[0]};
        args[place] = inner;
        outer.finish(outer.apply(row.op, {args, size_t(row.arity)}));
        const std::string text = to_string(outer, kXyz);
        const Body back = body(text);
        EXPECT_EQ(to_string(back, kXyz), text);
        for (int k = 0; k < 4; ++k) {
          const double point[] = {draw(random), draw(random), draw(random)};
          EXPECT_TRUE(same(evaluate(outer, point, 0), evaluate(back, point, 0))) << text;
        }
      }
    }
  }
}

TEST(BodyText, ConstantsRoundTrip) {
  for (double value : {0.0, -0.0, 1.0, -1.0, 0.1, 1e-300, -5e-324, 1e300, 123456789.125, kInf, -kInf, kNan}) {
    Body b;
    b.finish(b.apply(Op::pow, std::array{b.constant(value), b.load(0)}));
    const Body back = body(to_string(b, kXyz));
    EXPECT_TRUE(
        same(evaluate(Body::number(value), {}, 0), evaluate(body(to_string(Body::number(value), kXyz)), {}, 0)));
    for (double x : {1.0, 2.0, -1.0}) {
      const double point[] = {x};
      EXPECT_TRUE(same(evaluate(b, point, 0), evaluate(back, point, 0))) << to_string(b, kXyz);
    }
  }
}

TEST(BodyText, Refusals) {
  struct Row {
    const char *text, *phrase;
  };
  const Row rows[] = {
      {"", "expected a number, an operand or a function"},
      {"x +", "at the end"},
      {"q", "the operands are x, y, z"},
      {"x y", "expected an operator before `y`, column 3"},
      {"frob(x)", "there is no op `frob`"},
      {"max(x)", "`max` takes 2 operands, not 1"},
      {"(x", "expected `)`"},
      {"f32(x, y)", "takes 1 operands, not 2"},
  };
  for (const Row& row : rows) {
    try {
      body(row.text);
      ADD_FAILURE() << row.text << " was accepted";
    } catch (const SpecError& error) {
      EXPECT_NE(std::string(error.what()).find(row.phrase), std::string::npos) << error.what();
    }
  }
}

// ---------------------------------------------------------------- derivatives

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

// ---------------------------------------------------------------- programs

Buffer buffer(std::string name, const char* shape, BufferKind kind, DType dtype = DType::f32) {
  return {std::move(name), parse_shape(shape), dtype, std::move(kind), {}};
}

Term it(int k, int64_t coefficient = 1) { return Term::iterator(k, coefficient); }

// y = w(x)
Program linear() {
  Program p;
  p.name = "linear";
  p.buffers = {buffer("w", "2->16", StateLeaf{}), buffer("x", "10|2", StateLeaf{}), buffer("y", "10|16", Computed{})};
  Accumulation a;
  a.target = 2;
  a.accumulator = Accumulator::add;
  a.iterators = {"b", "o", "i"};
  a.extents = {10, 16, 2};
  a.write = {it(0), it(1)};
  a.operands = {{0, {it(1), it(2)}}, {1, {it(0), it(2)}}};
  a.body = Body::op(Op::mul);
  a.label = "w(x)";
  a.source = {"src/main.cpp", 12};
  p.accumulations = {a};
  p.observed = {2};
  return p;
}

// p[o] max= x[2 o + k - 1] inside x.
Program pool() {
  Program p;
  p.buffers = {buffer("x", "8", StateLeaf{}), buffer("p", "4", Computed{})};
  Accumulation a;
  a.target = 1;
  a.accumulator = Accumulator::max;
  a.iterators = {"o", "k"};
  a.extents = {4, 3};
  const Term at = it(0, 2) + it(1) - Term::number(1);
  a.where = {at};
  a.write = {it(0)};
  a.operands = {{0, {at}}};
  a.body = Body::identity();
  a.label = "pool";
  p.accumulations = {a};
  return p;
}

// e[b, d] += table[ids[b], d]
Program gather() {
  Program p;
  p.buffers = {buffer("table", "5,3", StateLeaf{}), buffer("ids", "4|", StateLeaf{}, DType::i32),
               buffer("e", "4|3", Computed{})};
  Accumulation a;
  a.target = 2;
  a.accumulator = Accumulator::add;
  a.iterators = {"b", "d"};
  a.extents = {4, 3};
  a.write = {it(0), it(1)};
  a.operands = {{0, {Term::load(1), it(1)}}, {1, {it(0)}}};
  a.body = Body::identity();
  p.accumulations = {a};
  return p;
}

Program argmax() {
  Program p;
  p.buffers = {buffer("x", "4|3", StateLeaf{}), buffer("n", "4|", Computed{}, DType::i64)};
  Accumulation a;
  a.target = 1;
  a.accumulator = Accumulator::argmax;
  a.iterators = {"b", "c"};
  a.extents = {4, 3};
  a.write = {it(0)};
  a.operands = {{0, {it(0), it(1)}}};
  a.body = Body::identity();
  a.counted = {false, true};
  p.accumulations = {a};
  return p;
}

// A batch of a data set, its mean, a step of a running mean and some noise.
Program everything() {
  Program p;
  p.name = "everything";
  p.symbols = {{"batch", 3}, {"step", 0}};
  p.buffers = {buffer("data", "6|2", DataLeaf{Array(parse_shape("6|2"))}),
               buffer("mean", "2", StateLeaf{}),
               buffer("rate", "", NumberLeaf{0.1}),
               buffer("now", "", SymbolLeaf{1}, DType::i64),
               buffer("axis", "2", IotaLeaf{}, DType::i32),
               buffer("bits", "2", RandomLeaf{"noise", 1, 24, 3}, DType::i32),
               buffer("sum", "2", Computed{}),
               buffer("next", "2", Computed{})};
  Accumulation a;
  a.target = 6;
  a.accumulator = Accumulator::add;
  a.iterators = {"r", "i"};
  a.extents = {2, 2};
  a.write = {it(1)};
  a.operands = {{0, {Term::symbol(0, 2) + it(0), it(1)}}};
  a.body = Body::identity();
  a.label = "sum";
  Accumulation b;
  b.target = 7;
  b.accumulator = Accumulator::add;
  b.iterators = {"i"};
  b.extents = {2};
  b.write = {it(0)};
  b.operands = {{1, {it(0)}}, {6, {it(0)}}, {2, {}}, {5, {it(0)}}, {4, {it(0)}}};
  b.body = parse_body("m + rate * (s - m) + bits * axis", Names{"m", "s", "rate", "bits", "axis"});
  p.accumulations = {a, b};
  p.assignments = {{1, 7}};
  p.observed = {6, 7};
  return p;
}

TEST(Print, Accumulations) {
  struct Row {
    Program program;
    const char* text;
  };
  Program shift = linear();
  shift.buffers[2].shape = parse_shape("");
  shift.accumulations[0].write = {};
  shift.accumulations[0].label = "";
  shift.accumulations[0].source = {};
  Program scalar;
  scalar.buffers = {buffer("a", "", StateLeaf{}), buffer("z", "", Computed{})};
  Accumulation one;
  one.target = 1;
  one.operands = {{0, {}}};
  one.body = body("x * x");
  scalar.accumulations = {one};
  const Row rows[] = {
      {linear(), "y[b, o] += w[o, i] * x[b, i]   for b < 10, o < 16, i < 2   # w(x), main.cpp:12"},
      {pool(), "p[o] max= x[2*o + k - 1]   for o < 4, k < 3 where 2*o + k - 1 >= 0   # pool"},
      {gather(), "e[b, d] += table[ids[b], d]   for b < 4, d < 3"},
      {argmax(), "n[b] argmax= x[b, c]   for b < 4, c < 3 counting c"},
      {shift, "y += w[o, i] * x[b, i]   for b < 10, o < 16, i < 2"},
      {scalar, "z += a * a"},
  };
  for (const Row& row : rows) EXPECT_EQ(to_string(row.program, row.program.accumulations[0]), row.text);
}

TEST(Print, Program) {
  EXPECT_EQ(to_string(everything()),
            "program everything\n"
            "symbol batch < 3\n"
            "symbol step\n"
            "data: 6|2 f32 data\n"
            "mean: 2 f32 state\n"
            "rate: scalar f32 number 0.1\n"
            "now: scalar i64 symbol step\n"
            "axis: 2 i32 iota\n"
            "bits: 2 i32 random \"noise\", word 1, 24 bits, step now\n"
            "sum[i] += data[r + 2*batch, i]   for r < 2, i < 2   # sum\n"
            "next[i] += mean[i] + rate * (sum[i] - mean[i]) + bits[i] * axis[i]   for i < 2\n"
            "mean := next\n"
            "observe sum, next\n");
}

TEST(Equal, NamesLabelsAndLinesAside) {
  const Program p = linear();
  Program q = linear();
  for (Buffer& b : q.buffers) b.name = "encoder.1." + b.name;
  q.accumulations[0].iterators = {"s", "t", "u"};
  q.accumulations[0].label = "something else";
  q.accumulations[0].source = {"other.cpp", 99};
  EXPECT_TRUE(equal(p, p.accumulations[0], q, q.accumulations[0]));
  EXPECT_EQ(hash(p, p.accumulations[0]), hash(q, q.accumulations[0]));

  struct Row {
    const char* what;
    std::function<void(Program&)> change;
  };
  const Row rows[] = {
      {"precision", [](Program& r) { r.buffers[0].dtype = DType::f64; }},
      {"target's precision", [](Program& r) { r.buffers[2].dtype = DType::f64; }},
      {"size", [](Program& r) { r.buffers[0].shape = parse_shape("2->17"); }},
      {"extent", [](Program& r) { r.accumulations[0].extents[0] = 9; }},
      {"accumulator", [](Program& r) { r.accumulations[0].accumulator = Accumulator::max; }},
      {"body", [](Program& r) { r.accumulations[0].body = Body::op(Op::sub); }},
      {"map", [](Program& r) { r.accumulations[0].operands[0].map[0].constant = 1; }},
      {"write map", [](Program& r) { r.accumulations[0].write[0].constant = 1; }},
      {"condition", [](Program& r) { r.accumulations[0].where = {it(0) - it(1)}; }},
      {"aliasing",
       [](Program& r) {
         r.buffers[1] = r.buffers[0];
         r.accumulations[0].operands[1].buffer = 0;
       }},
  };
  for (const Row& row : rows) {
    Program r = linear();
    row.change(r);
    EXPECT_FALSE(equal(p, p.accumulations[0], r, r.accumulations[0])) << row.what;
    EXPECT_NE(hash(p, p.accumulations[0]), hash(r, r.accumulations[0])) << row.what;
  }
}

TEST(Verify, Accepts) {
  for (const Program& program : {linear(), pool(), gather(), argmax(), everything(), Program{}}) {
    EXPECT_NO_THROW(verify(program));
    EXPECT_EQ(problem(program), std::nullopt);
  }
  Program nothing = linear();  // nothing is visited, so nothing is out of range
  nothing.accumulations[0].extents = {0, 1000, 1000};
  EXPECT_NO_THROW(verify(nothing));
  Program stronger = pool();  // 2 o + k - 2 >= 0 implies 2 o + k - 1 >= 0
  stronger.accumulations[0].where[0].constant = -2;
  EXPECT_NO_THROW(verify(stronger));
  Program above = pool();  // a window that leaves at the right
  above.accumulations[0].extents[1] = 4;
  above.accumulations[0].where.push_back(Term::number(7) - above.accumulations[0].operands[0].map[0]);
  EXPECT_NO_THROW(verify(above));
}

TEST(Verify, Refuses) {
  struct Row {
    const char* phrase;
    std::function<Program()> make;
    std::function<void(Program&)> change;
  };
  auto first = [](Program& p) -> Accumulation& { return p.accumulations[0]; };
  const Row rows[] = {
      // buffers
      {"`x` has the name of another buffer", linear, [](Program& p) { p.buffers[0].name = "x"; }},
      {"has no name", linear, [](Program& p) { p.buffers[0].name = ""; }},
      {"has a negative size", linear, [](Program& p) { p.buffers[0].shape.output[0].size = -1; }},
      {"but its data has 5|2", everything, [](Program& p) { p.buffers[0].kind = DataLeaf{Array(parse_shape("5|2"))}; }},
      {"`data` is f64 but its data is f32", everything, [](Program& p) { p.buffers[0].dtype = DType::f64; }},
      {"names symbol 7", everything, [](Program& p) { p.buffers[3].kind = SymbolLeaf{7}; }},
      {"is an iota but has 2 axes", everything, [](Program& p) { p.buffers[4].shape = parse_shape("2,2"); }},
      {"the step buffer `mean`, which is not a scalar", everything,
       [](Program& p) { std::get<RandomLeaf>(p.buffers[5].kind).step = 1; }},
      {"has no step buffer", everything, [](Program& p) { std::get<RandomLeaf>(p.buffers[5].kind).step = -1; }},
      {"reads 33 bits", everything, [](Program& p) { std::get<RandomLeaf>(p.buffers[5].kind).width = 33; }},
      {"reads random word 4 of 4", everything, [](Program& p) { std::get<RandomLeaf>(p.buffers[5].kind).lane = 4; }},
      // writes and reads
      {"`y` (w(x), main.cpp:12) writes a buffer that is written before", linear,
       [](Program& p) { p.accumulations.push_back(p.accumulations[0]); }},
      {"buffer `y` is computed but never written", linear, [](Program& p) { p.accumulations.clear(); }},
      {"accumulation of `w` (w(x), main.cpp:12) writes a leaf", linear, [&](Program& p) { first(p).target = 0; }},
      {"writes a buffer that does not exist", linear, [&](Program& p) { first(p).target = 9; }},
      {"reads buffer 9, which does not exist", linear, [&](Program& p) { first(p).operands[0].buffer = 9; }},
      {"reads `sum` before it is written", everything,
       [](Program& p) { std::swap(p.accumulations[0], p.accumulations[1]); }},
      {"reads `next` before it is written", everything, [](Program& p) { p.accumulations[1].operands[0].buffer = 7; }},
      {"reads `late` before it is written", everything,
       [](Program& p) {
         p.buffers.push_back(buffer("late", "", Computed{}));
         std::get<RandomLeaf>(p.buffers[5].kind).step = 8;
       }},
      // domains and maps
      {"has 3 iterators but 2 extents", linear, [&](Program& p) { first(p).extents.pop_back(); }},
      {"has the negative extent -1 of `o`", linear, [&](Program& p) { first(p).extents[1] = -1; }},
      {"writes `y`, which has 2 axes, with 1 indices", linear, [&](Program& p) { first(p).write.pop_back(); }},
      {"reads `w`, which has 2 axes, with 3 indices", linear,
       [&](Program& p) { first(p).operands[0].map.push_back(it(0)); }},
      {"names iterator 5", linear, [&](Program& p) { first(p).write[0] = it(5); }},
      {"names symbol 0", linear, [&](Program& p) { first(p).write[0] = Term::symbol(0); }},
      {"names operand 2", linear, [&](Program& p) { first(p).where = {Term::load(2)}; }},
      {"not in normal form", linear, [&](Program& p) { first(p).write[0].parts[0].coefficient = 0; }},
      {"reads `x` out of range: the index b + 1 of axis 0 goes up to 10 where the size is 10", linear,
       [&](Program& p) { first(p).operands[1].map[0].constant = 1; }},
      {"writes `y` out of range: the index o of axis 1 goes up to 16", linear,
       [&](Program& p) { first(p).extents[1] = 17; }},
      {"the index 2*o + k - 1 of axis 0 goes down to -1", pool, [&](Program& p) { first(p).where.clear(); }},
      {"goes down to -1", pool, [&](Program& p) { first(p).where[0].constant = 0; }},
      {"goes up to 8 where the size is 8", pool, [&](Program& p) { first(p).extents[1] = 4; }},
      {"goes up to any value", everything, [&](Program& p) { p.symbols[0].range = 0; }},
      {"goes up to 7 where the size is 6", everything, [&](Program& p) { p.symbols[0].range = 4; }},
      // accumulators, index tensors, bodies
      {"writes through an index tensor, which `mul` does not allow", gather,
       [&](Program& p) {
         first(p).write[1] = Term::load(1);
         first(p).accumulator = Accumulator::mul;
       }},
      {"reads the index tensor `ids` at its own value", gather,
       [&](Program& p) { first(p).operands[1].map[0] = Term::load(1); }},
      {"for 0 of 2 iterators", argmax, [&](Program& p) { first(p).counted.clear(); }},
      {"keeps a position in f32", argmax, [&](Program& p) { p.buffers[1].dtype = DType::f32; }},
      {"counts iterators but does not keep a position", linear,
       [&](Program& p) {
         first(p).counted = {true, true, true};
       }},
      {"has an empty body", linear, [&](Program& p) { first(p).body = Body(); }},
      {"reads operand 2 of 2", linear, [&](Program& p) { first(p).body = Body::op(Op::where); }},
      // assignments
      {"`data := next` assigns to something that is not a state", everything,
       [](Program& p) { p.assignments[0].state = 0; }},
      {"is the second of its state", everything,
       [](Program& p) {
         p.assignments.push_back({1, 6});
       }},
      {"gives shape `` to a state of shape `2`", everything, [](Program& p) { p.assignments[0].value = 2; }},
      {"names a buffer that does not exist", everything, [](Program& p) { p.assignments[0].value = 20; }},
      {"observed buffer 20 does not exist", everything, [](Program& p) { p.observed[0] = 20; }},
  };
  for (const Row& row : rows) {
    Program program = row.make();
    row.change(program);
    try {
      verify(program);
      ADD_FAILURE() << "accepted, but expected: " << row.phrase;
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(row.phrase), std::string::npos)
          << "expected: " << row.phrase << "\n     got: " << error.what();
      EXPECT_NE(std::string(error.what()).find(": " + problem(program).value() + ". This is"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace caravan::ir
