// What changes no bit is dropped.
#include "caravan/optimize/simplify.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "caravan/ops/table.h"
#include "caravan/optimize/inline_producers.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

// One expression over a (f32), b (f32), n (i32), c (bool) and h (f16), of 2 elements each.
struct Leaves {
  Tensor a = parameter("a", "2"), b = parameter("b", "2"),
         n = state("n", {.output = {2}, .init = zeros(), .dtype = DType::i32});
  Tensor c = state("c", {.output = {2}, .init = zeros(), .dtype = DType::boolean}),
         h = state("h", {.output = {2}, .init = zeros(), .dtype = DType::f16});
};

std::string body_text(const ir::Program& p) {
  EXPECT_EQ(p.accumulations.size(), 1u);
  std::vector<std::string> names;
  for (const ir::Operand& o : p.accumulations[0].operands) names.push_back(p.buffers[size_t(o.buffer)].name);
  return ir::to_string(p.accumulations[0].body, names);
}

struct BodyRow {
  std::function<Tensor(const Leaves&)> value;
  const char *before, *after;  // bodies
};

void expect_simplified(const std::vector<BodyRow>& rows) {
  for (const BodyRow& row : rows) {
    const ir::Program before = inline_producers(to_ir(observe(row.value({})))), after = simplify(before);
    ir::verify(after);
    EXPECT_EQ(body_text(before), row.before);
    EXPECT_EQ(body_text(after), row.after) << row.before;
    EXPECT_EQ(body_of(simplify(after)), body_of(after)) << row.before << ", a second time";
  }
}

TEST(Simplify, BeforeAndAfter) {
  const std::vector<BodyRow> rows = {
      {[](auto& l) { return l.a * 1; }, "a * 1", "a"},
      {[](auto& l) { return 1 * l.a; }, "1 * a", "a"},
      {[](auto& l) { return l.h * 1; }, "h * 1", "h"},
      {[](auto& l) { return l.n * 1; }, "n * 1", "n"},
      {[](auto& l) { return l.a / 1; }, "a / 1", "a"},
      {[](auto& l) { return l.a - 0; }, "a - 0", "a"},
      {[](auto& l) { return l.a + -0.0; }, "a + -0", "a"},
      {[](auto& l) { return -(-l.a); }, "--a", "a"},
      {[](auto& l) { return cast(cast(l.h, DType::f32), DType::f16); }, "f16(f32(h))", "h"},
      {[](auto& l) { return cast(cast(l.h, DType::f32), DType::bf16); }, "bf16(f32(h))", "bf16(f32(h))"},
      {[](auto& l) { return cast(cast(l.a, DType::f64), DType::f32); }, "f32(f64(a))", "a"},
      {[](auto& l) { return cast(cast(l.a, DType::f16), DType::f32); }, "f32(f16(a))", "f32(f16(a))"},
      {[](auto& l) { return abs(abs(l.a)); }, "abs(abs(a))", "abs(a)"},
      {[](auto& l) { return relu(relu(l.a)); }, "relu(relu(a))", "relu(a)"},
      {[](auto& l) { return round(round(l.a)); }, "round(round(a))", "round(a)"},
      {[](auto& l) { return max(l.a, l.a); }, "max(a, a)", "a"},
      {[](auto& l) { return min(l.n, l.n); }, "min(n, n)", "n"},
      {[](auto& l) { return where(l.c, l.a, l.a); }, "where(c, a, a)", "a"},
      {[](auto& l) { return where(1, l.a, l.b); }, "where(1, a, b)", "a"},
      {[](auto& l) { return where(0, l.a, l.b); }, "where(0, a, b)", "b"},
      {[](auto& l) { return where(ones_like(l.a), l.a, l.b); }, "where(f32(1), a, b)", "a"},
      {[](auto& l) { return logical_not(logical_not(l.c)); }, "not(not(c))", "c"},
      {[](auto& l) { return cast(l.a, DType::f32) * l.b; }, "f32(a) * b", "a * b"},
      {[](auto& l) { return cast(l.h, DType::f16); }, "f16(h)", "h"},
      {[](auto& l) { return cast(cast(l.a, DType::f16), DType::f16); }, "f16(a)", "f16(a)"},  // as inlined
      {[](auto& l) { return l.a * ones_like(l.a); }, "a * f32(1)", "a"},
      {[](auto& l) { return exp(l.a * 1) - 0; }, "exp(a * 1) - 0", "exp(a)"},
  };
  expect_simplified(rows);
  // Numbers computed from numbers, as they stand where tensors of numbers were put in.
  auto number_of = [](const char* text) {
    ir::Program p = to_ir(observe(Leaves().a * 2));
    const std::string names[] = {"a"};
    ir::Body parsed = ir::parse_body(text, names);
    p.accumulations[0].body = parsed;
    return body_text(simplify(p));
  };
  EXPECT_EQ(number_of("a * (1 + 2)"), "a * 3");
  EXPECT_EQ(number_of("where(1 < 2, a, 0.5)"), "a");
}

TEST(Simplify, MustRefuse) {
  const std::vector<BodyRow> hand_rows = {
      // it is not the same: -0 + 0 is 0; inf * 0 and NaN * 0 are NaN
      {[](auto& l) { return l.a + 0; }, "a + 0", "a + 0"},
      {[](auto& l) { return 0 + l.a; }, "0 + a", "0 + a"},
      {[](auto& l) { return l.a - -0.0; }, "a - -0", "a - -0"},
      {[](auto& l) { return l.a * 0; }, "a * 0", "a * 0"},
      {[](auto& l) { return l.a - l.a; }, "a - a", "a - a"},
      {[](auto& l) { return l.a / l.a; }, "a / a", "a / a"},
      {[](auto& l) { return 0 - l.a; }, "0 - a", "0 - a"},
      {[](auto& l) { return 1 / l.a; }, "1 / a", "1 / a"},
      {[](auto& l) { return max(l.a, l.b); }, "max(a, b)", "max(a, b)"},
      // a function that compiled code rounds in its own way
      {[](auto& l) { return pow(l.a, 1); }, "pow(a, 1)", "pow(a, 1)"},
      {[](auto& l) { return pow(l.a, 2); }, "pow(a, 2)", "pow(a, 2)"},
      // another precision than the operand's
      {[](auto& l) { return l.c * 1; }, "c * 1", "c * 1"},
      {[](auto& l) { return l.n / 1; }, "n / 1", "n / 1"},
      {[](auto& l) { return logical_not(logical_not(l.a)); }, "not(not(a))", "not(not(a))"},
      {[](auto& l) { return -(-l.c); }, "--c", "--c"},
      {[](auto& l) { return where(1, l.n, l.a); }, "where(1, n, a)", "where(1, n, a)"},
      {[](auto& l) { return where(1, 0.5, l.a); }, "where(1, 0.5, a)", "where(1, 0.5, a)"},
      {[](auto& l) { return l.h * cast(ones_like(l.a), DType::f32); }, "h * f32(1)", "h * f32(1)"},
      // a narrow float that is computed is not rounded before the cast
      {[](auto& l) { return cast(l.h * l.h, DType::f16) * l.h; }, "f16(h * h) * h", "f16(h * h) * h"},
  };
  expect_simplified(hand_rows);
}

// Every op of numbers and operands that may simplify, against what it was, for all values that are special.
TEST(Simplify, ChangesNoBitOfAnyOp) {
  const double inf = INFINITY, specials[] = {0.0, -0.0, 1, -1, 2.5, -2.5, 0.1, 5e-324, -5e-324, 1e308, inf, -inf, NAN};
  int rewritten = 0;
  for (const OpRow& row : op_rows()) {
    const int choices = 8;  // a, b, op(a, b, a), -a, and numbers
    for (int code = 0; code < choices * choices * choices; ++code) {
      if (row.arity < 3 && code >= (row.arity == 1 ? choices : choices * choices)) break;
      ir::Body body;
      const int a = body.load(0), b = body.load(1), all[3] = {a, b, a};
      const int some[choices] = {a,
                                 b,
                                 body.apply(row.op, {all, size_t(row.arity)}),
                                 body.apply(Op::neg, std::array{a}),
                                 body.constant(0),
                                 body.constant(-0.0),
                                 body.constant(1),
                                 body.constant(-inf)};
      const int args[3] = {some[code % choices], some[code / choices % choices], some[code / choices / choices]};
      body.finish(body.apply(row.op, {args, size_t(row.arity)}));
      if (!body.reads(0) && !body.reads(1)) continue;
      for (DType dtype : {DType::f64, DType::i32, DType::boolean}) {
        ir::Program p;
        for (const char* name : {"a", "b"}) p.buffers.push_back({name, {}, dtype, ir::StateLeaf{}, {}});
        p.buffers.push_back({"y", {}, ir::type_of(body, std::array{dtype, dtype}, {}), ir::Computed{}, {}});
        ir::Accumulation made;
        made.target = 2, made.accumulator = Accumulator::add, made.operands = {{0, {}}, {1, {}}}, made.body = body;
        p.accumulations = {made};
        p.observed = {2};
        const ir::Program q = simplify(p);
        const ir::Accumulation& after = q.accumulations[0];
        if (after.body == body) continue;
        ++rewritten;
        std::vector<DType> dtypes(after.operands.size(), dtype);
        ASSERT_EQ(ir::type_of(after.body, dtypes, {}), p.buffers[2].dtype) << ir::to_string(p, made);
        for (double x : specials)
          for (double y : specials) {
            std::vector<double> values;
            for (const ir::Operand& o : after.operands)
              values.push_back(q.buffers[size_t(o.buffer)].name == "a" ? x : y);
            auto fits = [&](double v) {
              return dtype == DType::f64 ||
                     std::bit_cast<uint64_t>(v) == std::bit_cast<uint64_t>(convert(dtype, v) + 0);
            };
            if (!fits(x) || !fits(y)) continue;
            const double before = ir::evaluate(body, std::array{x, y}, 0), now = ir::evaluate(after.body, values, 0);
            ASSERT_TRUE(std::bit_cast<uint64_t>(before) == std::bit_cast<uint64_t>(now) ||
                        (std::isnan(before) && std::isnan(now)))
                << ir::to_string(p, made) << " became " << ir::to_string(q, after) << " at " << x << ", " << y << ": "
                << before << ", " << now;
          }
      }
    }
  }
  EXPECT_GT(rewritten, 200);
}

}  // namespace
}  // namespace caravan::optimize
