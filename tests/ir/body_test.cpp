// Bodies of accumulations and their text.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "caravan/base/error.h"
#include "caravan/ir/program.h"
#include "caravan/ops/table.h"
#include "ir/bodies.h"

namespace caravan::ir {
namespace {

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

}  // namespace
}  // namespace caravan::ir
