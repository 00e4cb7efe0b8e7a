// Every pass as two tables: what it makes of a program, and what it must leave alone and why. And the pipeline: its
// order, its log, what it costs.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <ctime>
#include <functional>
#include <random>
#include <set>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/interp/device.h"
#include "caravan/base/error.h"
#include "caravan/codegen/c.h"
#include "caravan/ir/write_form.h"
#include "caravan/lower/lower.h"
#include "caravan/ops/table.h"
#include "caravan/optimize/copy_leaves.h"
#include "caravan/optimize/delay_updates.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "caravan/schedule/hoist.h"
#include "caravan/optimize/inline_producers.h"
#include "caravan/optimize/join_parts.h"
#include "caravan/optimize/merge_equal.h"
#include "caravan/schedule/merge_values.h"
#include "caravan/optimize/pack_operands.h"
#include "caravan/schedule/parallelize.h"
#include "caravan/plan/plan.h"
#include "caravan/optimize/remove_unused.h"
#include "caravan/optimize/run_forwards.h"
#include "caravan/optimize/simplify.h"
#include "caravan/optimize/solve_writes.h"
#include "caravan/schedule/split_loops.h"
#include "caravan/optimize/split_sums.h"
#include "caravan/schedule/update_in_place.h"
#include "caravan/schedule/vectorize.h"
#include "programs.h"
#include "sanitized.h"

namespace caravan::passes {
namespace {

using namespace optimize;
using namespace schedule;
using plan::LogEntry;

ir::Program split_sums(const ir::Program& program) { return optimize::split_sums(program, host()); }
ir::Program pack_operands(const ir::Program& program) { return optimize::pack_operands(program, host()); }
loop::Module vectorize(const loop::Module& module) { return schedule::vectorize(module, host()); }
loop::Module parallelize(const loop::Module& module) { return schedule::parallelize(module, host()); }
plan::Plan run(const ir::Program& program, const plan::Options& options = {}) { return plan::make_plan(program, host(), options); }

Tensor leaf(const std::string& name, const std::string& shape) { return param(name, Array(parse_shape(shape))); }

std::string trimmed(const std::string& text) {  // raw strings start and end with a line break
  size_t from = text.find_first_not_of('\n');
  return from == text.npos ? "" : text.substr(from);
}

// ---------------------------------------------------------------- over accumulations

struct ProgramRow {
  const char* name;
  std::function<Program()> program;
  const char* before;
  const char* after;
};
using ProgramPass = ir::Program (*)(const ir::Program&);

void expect_rows(ProgramPass pass, const std::vector<ProgramRow>& rows) {
  for (const ProgramRow& row : rows) {
    SCOPED_TRACE(row.name);
    const ir::Program before = remove_unused(copy_leaves(to_ir(row.program())));
    const ir::Program after = pass(before);
    ir::verify(after);
    EXPECT_EQ(body_of(before), trimmed(row.before));
    EXPECT_EQ(body_of(after), trimmed(row.after));
    EXPECT_EQ(body_of(pass(after)), body_of(after)) << "a second time";
  }
}
struct RefusalRow {
  const char* reason;
  std::function<Program()> program;
};
void expect_refused(ProgramPass pass, const std::vector<RefusalRow>& rows) {
  for (const RefusalRow& row : rows) {
    const ir::Program before = remove_unused(copy_leaves(to_ir(row.program())));
    EXPECT_EQ(body_of(pass(before)), body_of(before)) << row.reason;
  }
}

TEST(JoinParts, BeforeAndAfter) {
  expect_rows(join_parts, {
      {"a stack", [] { return observe(stack({exp(leaf("a", "3")).named("x"), leaf("b", "3")}).named("y")); }, R"(
x[o0] += exp(a[o0])   for o0 < 3
stack[part0, o0] += x[o0]   for o0 < 3, part0 < 1
stack.1[part1 + 1, o0] += b[o0]   for o0 < 3, part1 < 1
y[o0, o1] += stack[o0, o1] + stack.1[o0, o1]   for o0 < 2, o1 < 3
)", R"(
x[o0] += exp(a[o0])   for o0 < 3
y[part0, o0] += x[o0] + 0   for o0 < 3, part0 < 1
y[part1 + 1, o0] += b[o0] + 0   for o0 < 3, part1 < 1
)"},
      {"a concatenation", [] { return observe(concat("i; j => i^j", leaf("a", "2"), leaf("b", "3")).named("y")); }, R"(
concat[i] += a[i]   for i < 2
concat.1[j + 2] += b[j]   for j < 3
y[o0] += concat[o0] + concat.1[o0]   for o0 < 5
)", R"(
y[i] += a[i] + 0   for i < 2
y[j + 2] += b[j] + 0   for j < 3
)"},
      {"sums, which begin with 0",
       [] { return observe(stack({einsum("ij => i", leaf("a", "3,2")).named("x"), leaf("b", "3")}).named("y")); }, R"(
x[i] += a[i, j]   for i < 3, j < 2
stack[part0, o0] += x[o0]   for o0 < 3, part0 < 1
stack.1[part1 + 1, o0] += b[o0]   for o0 < 3, part1 < 1
y[o0, o1] += stack[o0, o1] + stack.1[o0, o1]   for o0 < 2, o1 < 3
)", R"(
x[i] += a[i, j]   for i < 3, j < 2
y[part0, o0] += x[o0] + 0   for o0 < 3, part0 < 1
y[part1 + 1, o0] += b[o0] + 0   for o0 < 3, part1 < 1
)"},
      {"the gradient of slices, one of which is not used, beside another use",
       [] {
         Tensor x = leaf("x", "3,2"), c = leaf("c", "2");
         auto row = [&](int k) { return einsum(spec(std::to_string(k) + ", j => j"), x); };
         return observe(grad(dot(row(0), c) + dot(row(2), exp(c)) + sum(square(x)), x).named("dx"));
       },
       R"(
ones_like += 1
d sum += ones_like
d square[o0, o1] += d sum   for o0 < 3, o1 < 2
d x[o0, o1] += d square[o0, o1] * 2 * x[o0, o1]   for o0 < 3, o1 < 2
exp[o0] += exp(c[o0])   for o0 < 2
d add += ones_like
d dot += d add
d einsum[o0] += d dot * exp[o0]   for o0 < 2
d x.1[2, j] += d einsum[j]   for j < 2
d dot.1 += d add
d einsum.1[o0] += d dot.1 * c[o0]   for o0 < 2
d x.2[0, j] += d einsum.1[j]   for j < 2
dx[o0, o1] += d x[o0, o1] + d x.1[o0, o1] + d x.2[o0, o1]   for o0 < 3, o1 < 2
)", R"(
ones_like += 1
d sum += ones_like
d square[o0, o1] += d sum   for o0 < 3, o1 < 2
d x[o0, o1] += d square[o0, o1] * 2 * x[o0, o1]   for o0 < 3, o1 < 2
exp[o0] += exp(c[o0])   for o0 < 2
d add += ones_like
d dot += d add
d einsum[o0] += d dot * exp[o0]   for o0 < 2
dx.parts[2, j] += d einsum[j] + 0   for j < 2
d dot.1 += d add
d einsum.1[o0] += d dot.1 * c[o0]   for o0 < 2
dx.parts[0, j] += d einsum.1[j] + 0   for j < 2
dx.parts[o0 + 1, o1] += 0   for o0 < 1, o1 < 2
dx[o0, o1] += d x[o0, o1] + dx.parts[o0, o1]   for o0 < 3, o1 < 2
)"},
  });
}
TEST(JoinParts, MustRefuse) {
  expect_refused(join_parts, {
      {"a part that something else reads",
       [] {
         Tensor a = einsum("i => i^3", leaf("a", "2")), b = einsum("i => 2^i", leaf("b", "3"));
         return observe({a, a + b});
       }},
      {"two whole tensors, and the parts apart from each other: another order of sums",
       [] {
         Tensor a = einsum("i => i^3", leaf("a", "2")), b = einsum("i => 2^i", leaf("b", "3")), x = leaf("x", "5"), y = leaf("y", "5");
         return observe(grad(dot(a, x) + dot(y, y) + dot(b, x) + dot(x, y), x));
       }},
      {"ranges that overlap",
       [] {
         Tensor x = leaf("x", "4"), c = leaf("c", "3");
         return observe(grad(dot(einsum("o^1 => o", x), c) + dot(einsum("1^o => o", x), c), x));
       }},
      {"whole tensors", [] { return observe(leaf("a", "3") + leaf("b", "3")); }},
      {"a product of parts", [] { return observe(einsum("i => i^3", leaf("a", "2")) * einsum("i => 2^i", leaf("b", "3"))); }},
      {"narrow sums, which may be rounded to -0", [] { return observe(einsum("i, j => i^3", cast(leaf("a", "2,4"), DType::f16)) + einsum("i => 2^i", cast(leaf("b", "3"), DType::f16))); }},
  });
}
TEST(JoinParts, KeepsTheBits) {  // -0 in a part is 0 in the sum; f16 rounds to -0 when it is stored
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32}) {
    Tensor a = cast(tensor(Array(parse_shape("3"), {-0.0, -1e-12, 3}, DType::f64)), dtype), b = cast(tensor(Array(parse_shape("3"), {1, -0.0, -1e-12}, DType::f64)), dtype);
    Tensor s = stack({a, b, -a}), total = stack({sum(a * b), sum(a)});
    const Program p = observe({s, total, concat("i; j => i^j", a, b)});
    Context with({.device = "cpu"}), without({.device = "cpu", .passes_off = {"join_parts"}});
    const Routine r = with.compile(p), q = without.compile(p);
    Routine(r).run(), Routine(q).run();
    for (const Tensor& t : p.observed_as()) {
      const std::vector<double> x = r.read(t).values(), y = q.read(t).values();
      for (size_t e = 0; e < x.size(); ++e) EXPECT_EQ(std::bit_cast<uint64_t>(x[e]), std::bit_cast<uint64_t>(y[e])) << name(dtype) << " " << x[e] << " and " << y[e];
    }
  }
}

TEST(CopyLeaves, GivesEveryRootABufferOfItsOwn) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    const char* after;
  };
  const Row rows[] = {
      {"a state that another gets", [] { return assign(leaf("a", "3"), leaf("b", "3")); }, R"(
copy of b 2[i0] += b[i0]   for i0 < 3
a := copy of b 2
)"},
      {"a swap",
       [] {
         Tensor a = leaf("a", "3"), b = leaf("b", "3");
         return assign(a, b) & assign(b, a);
       },
       R"(
copy of b 2[i0] += b[i0]   for i0 < 3
copy of a 3[i0] += a[i0]   for i0 < 3
a := copy of b 2
b := copy of a 3
)"},
      {"an observed number", [] { return observe(number(2, DType::f64)); }, R"(
copy of 2 1 += 2
)"},
      {"another precision than the state's", [] { return assign(leaf("a", "2"), cast(leaf("b", "2"), DType::f64).named("wide")); }, R"(
wide[o0] += f64(b[o0])   for o0 < 2
copy of wide 3[i0] += f32(wide[i0])   for i0 < 2
a := copy of wide 3
)"},
      {"a computed value is left alone", [] { return observe((leaf("a", "2") + 1).named("y")); }, R"(
y[o0] += a[o0] + 1   for o0 < 2
)"},
  };
  for (const Row& row : rows) {
    const ir::Program after = copy_leaves(to_ir(row.program()));
    ir::verify(after);
    EXPECT_EQ(body_of(after), trimmed(row.after)) << row.name;
  }
}

TEST(RemoveUnused, DropsWhatNothingNeeds) {
  ir::Program p = to_ir(observe({exp(leaf("a", "2")).named("kept"), sin(leaf("b", "2")).named("dropped")}));
  p.observed.pop_back();
  const ir::Program after = remove_unused(p);
  ir::verify(after);
  EXPECT_EQ(body_of(after), "kept[o0] += exp(a[o0])   for o0 < 2\n");
  EXPECT_EQ(after.buffers.size(), 2u);
  // The step of random bits is needed as long as they are.
  const ir::Program random = to_ir(observe(random_bits("s", {.output = {2}, .step = cast(leaf("step", "") * 2, DType::i64).named("twice")}).named("bits")));
  EXPECT_EQ(remove_unused(random).buffers.size(), random.buffers.size());
}

// One expression over a (f32), b (f32), n (i32), c (bool) and h (f16), of 2 elements each.
struct Leaves {
  Tensor a = leaf("a", "2"), b = leaf("b", "2"), n = state("n", {.output = {2}, .init = zeros(), .dtype = DType::i32});
  Tensor c = state("c", {.output = {2}, .init = zeros(), .dtype = DType::boolean}), h = state("h", {.output = {2}, .init = zeros(), .dtype = DType::f16});
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
  expect_simplified({
      {[](auto& l) { return l.a * 1; }, "a * 1", "a"},
      {[](auto& l) { return 1 * l.a; }, "1 * a", "a"},
      {[](auto& l) { return l.h * 1; }, "h * 1", "h"},
      {[](auto& l) { return l.n * 1; }, "n * 1", "n"},
      {[](auto& l) { return l.a / 1; }, "a / 1", "a"},
      {[](auto& l) { return l.a - 0; }, "a - 0", "a"},
      {[](auto& l) { return l.a + -0.0; }, "a + -0", "a"},
      {[](auto& l) { return -(-l.a); }, "--a", "a"},
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
  });
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
  expect_simplified({
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
  });
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
      const int some[choices] = {a,                                                    b,
                                 body.apply(row.op, {all, size_t(row.arity)}), body.apply(Op::neg, std::array{a}),
                                 body.constant(0),                                     body.constant(-0.0),
                                 body.constant(1),                                     body.constant(-inf)};
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
            for (const ir::Operand& o : after.operands) values.push_back(q.buffers[size_t(o.buffer)].name == "a" ? x : y);
            auto fits = [&](double v) { return dtype == DType::f64 || std::bit_cast<uint64_t>(v) == std::bit_cast<uint64_t>(convert(dtype, v) + 0); };
            if (!fits(x) || !fits(y)) continue;
            const double before = ir::evaluate(body, std::array{x, y}, 0), now = ir::evaluate(after.body, values, 0);
            ASSERT_TRUE(std::bit_cast<uint64_t>(before) == std::bit_cast<uint64_t>(now) || (std::isnan(before) && std::isnan(now)))
                << ir::to_string(p, made) << " became " << ir::to_string(q, after) << " at " << x << ", " << y << ": " << before << ", " << now;
          }
      }
    }
  }
  EXPECT_GT(rewritten, 200);
}

TEST(MergeEqual, BeforeAndAfter) {
  expect_rows(merge_equal, {
      {"the same twice",
       [] {
         Tensor a = leaf("a", "3"), x = exp(a), y = exp(a);
         return observe((x + y).named("z"));
       },
       R"(
exp[o0] += exp(a[o0])   for o0 < 3
exp.1[o0] += exp(a[o0])   for o0 < 3
z[o0] += exp[o0] + exp.1[o0]   for o0 < 3
)",
       R"(
exp[o0] += exp(a[o0])   for o0 < 3
z[o0] += exp[o0] + exp[o0]   for o0 < 3
)"},
      {"what is equal once its operands are",
       [] {
         Tensor a = leaf("a", "3");
         return observe({sin(exp(a)).named("x"), sin(exp(a)).named("y")});
       },
       R"(
exp[o0] += exp(a[o0])   for o0 < 3
x[o0] += sin(exp[o0])   for o0 < 3
exp.1[o0] += exp(a[o0])   for o0 < 3
y[o0] += sin(exp.1[o0])   for o0 < 3
)",
       R"(
exp[o0] += exp(a[o0])   for o0 < 3
x[o0] += sin(exp[o0])   for o0 < 3
)"},
  });
}
TEST(MergeEqual, MustRefuse) {
  expect_refused(merge_equal, {
      {"other operands", [] { return observe({exp(leaf("a", "3")), exp(leaf("b", "3"))}); }},
      {"operands in another place", [] {
         Tensor a = leaf("a", "3"), b = leaf("b", "3");
         return observe({a - b, b - a});
       }},
      {"another accumulator", [] {
         Tensor a = leaf("a", "3,2");
         return observe({einmax("ij=>i", a), einmin("ij=>i", a)});
       }},
      {"another precision of the result", [] {
         Tensor a = leaf("a", "3");
         return observe({cast(a, DType::f64), cast(a, DType::f16)});
       }},
      {"an observed result whose rows differ", [] {
         Tensor a = leaf("a", "3,2");
         return observe({einsum("ij=>ji", a), einsum("ij=>j|i", a)});
       }},
  });
}

TEST(InlineProducers, BeforeAndAfter) {
  expect_rows(inline_producers, {
      {"pointwise work into its reader", [] { return observe(exp(leaf("a", "3") * 2 + 1).named("y")); }, R"(
mul[o0] += a[o0] * 2   for o0 < 3
add[o0] += mul[o0] + 1   for o0 < 3
y[o0] += exp(add[o0])   for o0 < 3
)",
       R"(
y[o0] += exp(a[o0] * 2 + 1)   for o0 < 3
)"},
      {"a transposition into a product that repeats it", [] { return observe(einsum("ij;jk=>ik", einsum("ij=>ji", leaf("a", "4,3")).named("t"), leaf("b", "4,2")).named("y")); }, R"(
t[j, i] += a[i, j]   for j < 3, i < 4
y[i, k] += t[i, j] * b[j, k]   for i < 3, k < 2, j < 4
)",
       R"(
y[i, k] += a[j, i] * b[j, k]   for i < 3, k < 2, j < 4
)"},
      {"the slice of a batch, read in place",
       [] {
         Index at("at", 3);
         return observe(einsum("b|i=>b|", tensor(Array(parse_shape("3,2|2")), "data")[at]).named("y"));
       },
       R"(
slice at[b0, o0] += data[at, b0, o0]   for b0 < 2, o0 < 2
y[b] += slice at[b, i]   for b < 2, i < 2
)",
       R"(
y[b] += data[at, b, i]   for b < 2, i < 2
)"},
      {"something expensive into its only reader, a sum", [] { return observe(sum(exp(leaf("a", "3"))).named("y")); }, R"(
exp[o0] += exp(a[o0])   for o0 < 3
y += exp[o0]   for o0 < 3
)",
       R"(
y += exp(a[o0])   for o0 < 3
)"},
      {"a number that is computed from numbers, into a loop that repeats it", [] { return observe((leaf("a", "3") * (ones_like(leaf("s", "")) / 4).named("n")).named("y")); }, R"(
ones_like += 1
n += ones_like / 4
y[o0] += a[o0] * n   for o0 < 3
)",
       R"(
y[o0] += a[o0] * (f32(1) / 4)   for o0 < 3
)"},
      {"a padded reader: the reader's condition keeps the load in range", [] { return observe(einsum("o<1+k; k => o", (leaf("x", "4") + 1).named("p"), leaf("w", "3")).named("y")); }, R"(
p[o0] += x[o0] + 1   for o0 < 4
y[o] += p[o + k - 1] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
)",
       R"(
p[o0] += x[o0] + 1   for o0 < 4
y[o] += p[o + k - 1] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
)"},
      {"every second element, read through a padded window: the load is twice what the condition keeps in range", [] { return observe(einsum("o<1+k; k => o", einsum("2*n => n", leaf("x", "8")).named("p"), leaf("w", "3")).named("y")); }, R"(
p[n] += x[2*n]   for n < 4
y[o] += p[o + k - 1] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
)",
       R"(
y[o] += x[2*o + 2*k - 2] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
)"},
      {"a narrow value is rounded where it was stored", [] { return observe(cast(cast(leaf("a", "2"), DType::f16) * 3, DType::f32).named("y")); }, R"(
cast f16[o0] += f16(a[o0])   for o0 < 2
mul[o0] += cast f16[o0] * 3   for o0 < 2
y[o0] += f32(mul[o0])   for o0 < 2
)",
       R"(
y[o0] += f32(f16(f16(a[o0]) * 3))   for o0 < 2
)"},
  });
}
TEST(InlineProducers, MustRefuse) {
  expect_refused(inline_producers, {
      {"a reduction into a loop that repeats it", [] { return observe(leaf("b", "3,2") * einsum("i,j=>i,0", leaf("a", "3,4"))); }},
      {"a reduction, even into a reader that does not", [] { return observe(exp(einsum("ij=>i", leaf("a", "3,4")))); }},
      {"pointwise work into a loop that repeats it", [] { return observe(einsum("ij;jk=>ik", exp(leaf("a", "3,4")), leaf("b", "4,2"))); }},
      {"something expensive with two readers",
       [] {
         Tensor e = exp(leaf("a", "3"));
         return observe({einsum("i=>", e), einmax("i=>", e)});
       }},
      {"something expensive that is observed too",
       [] {
         Tensor e = exp(leaf("a", "3"));
         return observe({sum(e), e});
       }},
      {"a padded producer, which would need a guarded load", [] { return observe(exp(einsum("i^1 => 1^i", leaf("a", "3")))); }},
      {"a producer with a condition", [] { return observe(exp(einsum("ij=>ij", leaf("a", "3,3"), {{"j <= i"}}))); }},
      {"a producer that reads through an index tensor", [] { return observe(exp(gather(leaf("t", "4->2"), tensor(Array::vector({1, 3}, DType::i32))))); }},
      {"an index tensor of its reader", [] { return observe(gather(leaf("t", "4->2"), cast(leaf("ids", "3"), DType::i32))); }},
      {"an argmax", [] { return observe(cast(argmax("ij=>i", leaf("a", "3,2")), DType::f32)); }},
      {"random bits with two readers",
       [] {
         Tensor bits = cast(random_bits("s", {.output = {3}, .step = 0}), DType::f32);
         return observe({sum(bits), largest(bits)});
       }},
      {"a map that the verifier could not prove: an index of five padded windows",
       [] {
         Tensor x = einsum("i&j&k&l&m => i, j, k, l, m", leaf("x", "32"), {{"i", 2}, {"j", 2}, {"k", 2}, {"l", 2}});
         return observe(einsum("i<1+p, j<1+q, k<1+r, l<1+s, m<1+t => i, j, k, l, m", x, {{"p", 3}, {"q", 3}, {"r", 3}, {"s", 3}, {"t", 3}}));
       }},
      {"a merged axis, which its reader would have to divide", [] { return observe(exp(einsum("i, j => i&j", leaf("a", "3,2")))); }},
      {"an axis written backwards", [] { return observe(exp(einsum("i => -i", leaf("a", "3")))); }},
  });
}
TEST(InlineProducers, BodiesStayBounded) {
  Tensor x = leaf("x", "4");
  for (int k = 0; k < 300; ++k) x = x * 1.5 + k;
  const ir::Program after = inline_producers(to_ir(observe(x)));
  EXPECT_GT(after.accumulations.size(), 2u);
  for (const ir::Accumulation& a : after.accumulations) EXPECT_LE(a.body.entries().size(), kLongestBody);
}

// The gradient of a window by what it reads, the cotangent being d.
Program window_gradient(const char* text, const char* x_shape, const char* w_shape, const char* d_shape) {
  Tensor x = leaf("x", x_shape), d = leaf("d", d_shape);
  return observe(grad(dot(d, einsum(spec(text), x, leaf("w", w_shape)).named("y")), x).named("dx"));
}

TEST(SolveWrites, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    const char *before, *after;  // the last accumulation
  };
  const Row rows[] = {
      {"stride 1", [] { return window_gradient("o+k; k => o", "7", "3", "5"); }, R"(
dx[o + k] += d y[o] * w[k]   for o < 5, k < 3
)",
       R"(
dx[o_q] += d y[o_q - k] * w[k]   for k < 3, o_q < 7 where o_q - k >= 0 and k - o_q + 4 >= 0
)"},
      {"stride 2: one case for each residue", [] { return window_gradient("2*o+k; k => o", "8", "3", "3"); }, R"(
dx[2*o + k] += d y[o] * w[k]   for o < 3, k < 3
)",
       R"(
dx[2*o_q + k_j] += d y[o_q - k_m] * w[2*k_m + k_j]   for k_m < 2, o_q < 4, k_j < 2 where o_q - k_m >= 0 and k_m - o_q + 2 >= 0 and 2 - 2*k_m - k_j >= 0
)"},
      {"stride 3, dilation 2", [] { return window_gradient("3*o+2*k; k => o", "30", "5", "8"); }, R"(
dx[3*o + 2*k] += d y[o] * w[k]   for o < 8, k < 5
)",
       R"(
dx[3*o_q + 2*k_j - 3] += d y[o_q - 2*k_m - 1] * w[3*k_m + k_j]   for k_m < 2, o_q < 11, k_j < 3 where o_q - 2*k_m - 1 >= 0 and 2*k_m - o_q + 8 >= 0 and 4 - 3*k_m - k_j >= 0 and 3*o_q + 2*k_j - 3 >= 0 and 32 - 3*o_q - 2*k_j >= 0
)"},
      {"stride 2, dilation 2: every second element, so the target is filled first", [] { return window_gradient("2*o+2*k; k => o", "12", "3", "4"); }, R"(
dx[2*o + 2*k] += d y[o] * w[k]   for o < 4, k < 3
)",
       R"(
dx[2*o_q] += d y[o_q - k] * w[k]   for k < 3, o_q < 6 where o_q - k >= 0 and k - o_q + 3 >= 0
)"},
      {"padded", [] { return window_gradient("2*o<1+k; k => o", "6", "3", "3"); }, R"(
dx[2*o + k - 1] += d y[o] * w[k]   for o < 3, k < 3 where 2*o + k - 1 >= 0
)",
       R"(
dx[2*o_q + k_j - 1] += d y[o_q - k_m] * w[2*k_m + k_j]   for k_m < 2, o_q < 4, k_j < 2 where 2*o_q + k_j - 1 >= 0 and o_q - k_m >= 0 and k_m - o_q + 2 >= 0 and 2 - 2*k_m - k_j >= 0 and 6 - 2*o_q - k_j >= 0
)"},
      {"two axes", [] { return window_gradient("h+p, 2*w<1+q, c; p, q, c => h, w", "4,6,2", "2,3,2", "3,3"); }, R"(
dx[h + p, 2*w + q - 1, c] += d y[h, w] * w[p, q, c]   for h < 3, w < 3, p < 2, q < 3, c < 2 where 2*w + q - 1 >= 0
)",
       R"(
dx[h_q, 2*w_q + q_j - 1, c] += d y[h_q - p, w_q - q_m] * w[p, 2*q_m + q_j, c]   for p < 2, q_m < 2, h_q < 4, w_q < 4, c < 2, q_j < 2 where 2*w_q + q_j - 1 >= 0 and h_q - p >= 0 and p - h_q + 2 >= 0 and w_q - q_m >= 0 and q_m - w_q + 2 >= 0 and 2 - 2*q_m - q_j >= 0 and 6 - 2*w_q - q_j >= 0
)"},
      {"a transposed convolution", [] { return observe(einsum("o; k => 2*o+k", leaf("x", "4"), leaf("w", "3")).named("y")); }, R"(
y[2*o + k] += x[o] * w[k]   for o < 4, k < 3
)",
       R"(
y[2*o_q + k_j] += x[o_q - k_m] * w[2*k_m + k_j]   for k_m < 2, o_q < 5, k_j < 2 where o_q - k_m >= 0 and k_m - o_q + 3 >= 0 and 2 - 2*k_m - k_j >= 0 and 8 - 2*o_q - k_j >= 0
)"},
      {"overlapping max pooling: the position is the old one", [] {
         Tensor x = leaf("x", "7");
         return observe(grad(dot(leaf("d", "3"), einmax("2*o+k => o", x, {{"k", 3}}).named("y")), x).named("dx"));
       }, R"(
dx[2*o + k] += where(position == argmax[o], d y[o], 0)   for o < 3, k < 3
)",
       R"(
dx[2*o_q + k_j] += where(positions of dx 6[3*o_q + k_j - k_m] == argmax[o_q - k_m], d y[o_q - k_m], 0)   for k_m < 2, o_q < 4, k_j < 2 where o_q - k_m >= 0 and k_m - o_q + 2 >= 0 and 2 - 2*k_m - k_j >= 0 and 6 - 2*o_q - k_j >= 0
)"},
      {"a few elements of many: the rest is filled, not searched", [] { return window_gradient("o+30+k; k => o", "40", "3", "8"); }, R"(
dx[o + k + 30] += d y[o] * w[k]   for o < 8, k < 3
)",
       R"(
dx[o_q + 30] += d y[o_q - k] * w[k]   for k < 3, o_q < 10 where o_q - k >= 0 and k - o_q + 7 >= 0
)"},
  };
  auto last = [](const ir::Program& p) { return joined(lines_of(ir::to_string(p, p.accumulations.back()))); };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const ir::Program before = remove_unused(copy_leaves(to_ir(row.program())));
    const ir::Program after = solve_writes(before);
    ir::verify(after);
    EXPECT_EQ(last(before), trimmed(row.before));
    EXPECT_EQ(last(after), trimmed(row.after));
    EXPECT_EQ(body_of(solve_writes(after)), body_of(after)) << "a second time";
    EXPECT_TRUE(ir::write_form(after, after.accumulations.back()).injective);
  }
}
TEST(SolveWrites, MustRefuse) {
  expect_refused(solve_writes, {
      {"what is injective: a product", [] { return observe(einsum("ij;jk=>ik", leaf("a", "3,4"), leaf("b", "4,2"))); }},
      {"what is injective: windows that overlap nowhere", [] { return observe(einsum("o; k => 3*o+k", leaf("x", "4"), leaf("w", "3"))); }},
      {"an index tensor in the write map", [] { return observe(scatter_add(leaf("x", "3,2"), tensor(Array::vector({1, 0, 1}, DType::i32)), 4)); }},
      {"an argmax, which keeps the first winner in the order of its iterators", [] { return observe(argmax("o => o+k", leaf("x", "4"), {{"k", 3}})); }},
  });
  // Maps that the notation does not write.
  using ir::Term;
  const Term i = Term::iterator(0), j = Term::iterator(1), k = Term::iterator(2), at = Term::symbol(0);
  auto n = [](int64_t value) { return Term::number(value); };
  struct Row {
    const char* reason;
    std::vector<Term> write;
    std::vector<int64_t> sizes, extents;
    bool solved;
  };
  const Row rows[] = {
      {"two iterators are solved", {i + j}, {6}, {4, 3, 2}, true},
      {"three iterators in an axis", {i + j + k}, {7}, {4, 3, 2}, false},
      {"an iterator that another axis has too", {i + j, j}, {6, 3}, {4, 3, 2}, false},
      {"an axis that a symbol moves", {i + j + at}, {8}, {4, 3, 2}, false},
      {"one axis can be solved, another cannot", {i + j, i + k}, {6, 5}, {4, 3, 2}, false},
      {"an overlapping axis beside an index tensor", {Term::load(1), i + j}, {5, 6}, {4, 3, 2}, false},
      {"no points", {i + j}, {6}, {4, 0, 2}, false},
      {"no elements", {i + j}, {0}, {4, 3, 2}, false},
  };
  for (const Row& row : rows) {
    ir::Program p;
    p.symbols = {{"at", 3}};
    Shape shape;
    for (int64_t size : row.sizes) shape.output.push_back({size});
    p.buffers = {{"y", shape, DType::f32, ir::Computed{}, {}}, {"x", parse_shape("4"), DType::f32, ir::StateLeaf{}, {}}, {"ids", parse_shape("2"), DType::i32, ir::StateLeaf{}, {}}};
    ir::Accumulation a;
    a.target = 0, a.accumulator = Accumulator::add, a.iterators = {"i", "j", "k"}, a.extents = row.extents, a.write = row.write, a.operands = {{1, {i}}, {2, {k}}}, a.body = ir::Body::identity();
    for (size_t axis = 0; axis < row.sizes.size(); ++axis) a.where.insert(a.where.end(), {row.write[axis], n(row.sizes[axis] - 1) - row.write[axis]});
    p.accumulations = {a}, p.observed = {0};
    ir::verify(p);
    EXPECT_EQ(body_of(solve_writes(p)) != body_of(p), row.solved) << row.reason;
  }
}

std::unique_ptr<backend::Device> unoptimised() {
  static const TemporaryFolder cache;
  cc::DeviceOptions options;
  options.compiler.cache = cache.path();
  options.compiler.flags.push_back("-O0");  // hundreds of kernels, run once
  return cc::make_device(options);
}

// Any two iterators in an axis, forwards and backwards, within the target and beyond it, with conditions, other
// accumulators and positions. All values are small integers, so that no order rounds.
Task random_map(uint32_t seed) {
  using ir::Term;
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) { return low + int(random() % uint32_t(high - low + 1)); };
  auto integers = [&](int64_t size) {
    Array out(parse_shape(std::to_string(size)), DType::f64);
    for (int64_t e = 0; e < size; ++e) out.set(e, pick(0, 1) ? pick(1, 3) : -pick(1, 3));
    return out;
  };
  Task out;
  ir::Program& p = out.program;
  Shape shape;
  ir::Accumulation a;
  ir::Body body;
  int value = -1;
  auto times = [&](int other) {
    const int args[] = {value, other};
    value = value < 0 ? other : body.apply(Op::mul, args);
  };
  p.buffers.resize(1);
  for (int axis = 0, axes = pick(1, 2); axis < axes; ++axis) {
    Term term = Term::number(pick(-5, 12));
    for (int k = 0; k < 2; ++k) {
      const int iterator = int(a.iterators.size());
      term = term + Term::iterator(iterator, pick(1, 4) * (pick(0, 3) ? 1 : -1));
      a.iterators.push_back("i" + std::to_string(iterator)), a.extents.push_back(pick(1, 6));
      const std::string name = "x" + std::to_string(iterator);
      out.states[name] = integers(a.extents.back());
      p.buffers.push_back({name, parse_shape(std::to_string(a.extents.back())), DType::f64, ir::StateLeaf{}, {}});
      a.operands.push_back({int(p.buffers.size()) - 1, {pick(0, 1) ? Term::iterator(iterator) : Term::number(a.extents.back() - 1) - Term::iterator(iterator)}});
      times(body.load(iterator));
    }
    const int64_t size = pick(1, 20);
    shape.output.push_back({size});
    a.where.insert(a.where.end(), {term, Term::number(size - 1) - term});
    a.write.push_back(term);
  }
  if (pick(0, 2) == 0) a.where.push_back(Term::iterator(0, pick(-2, 2)) + Term::iterator(1, pick(-2, 2)) + Term::number(pick(0, 4)));
  if (pick(0, 2) == 0) times(body.position());
  body.finish(value);
  const Accumulator accumulators[] = {Accumulator::add, Accumulator::add, Accumulator::max, Accumulator::min};
  a.target = 0, a.accumulator = accumulators[pick(0, 3)], a.body = body;
  p.buffers[0] = {"y", shape, DType::f64, ir::Computed{}, {}};
  p.accumulations = {a}, p.observed = {0};
  ir::verify(p);
  return out;
}
bool has_points(const ir::Accumulation& a) {
  std::vector<int64_t> at(a.extents.size(), 0);
  for (;;) {
    const bool inside = std::all_of(a.where.begin(), a.where.end(), [&](const ir::Term& t) {
      int64_t value = t.constant;
      for (const ir::Term::Part& part : t.parts) value += part.coefficient * at[size_t(part.which)];
      return value >= 0;
    });
    if (inside) return true;
    size_t k = 0;
    while (k < at.size() && ++at[k] == a.extents[k]) at[k++] = 0;
    if (k == at.size()) return false;
  }
}
TEST(SolveWrites, RandomMaps) {
  constexpr uint32_t kGroups = 4, kTogether = 150;
  int overlapping = 0, solved = 0;
  for (uint32_t group = 0; group < kGroups; ++group) {
    std::vector<Task> tasks;
    for (uint32_t k = 0; k < kTogether; ++k) {
      tasks.push_back(random_map(1 + group * kTogether + k));
      const ir::Program &p = tasks.back().program, q = solve_writes(p);
      ir::verify(q);
      if (ir::write_form(p, p.accumulations[0]).injective || !has_points(p.accumulations[0])) continue;
      ++overlapping, solved += ir::write_form(q, q.accumulations[0]).injective;
    }
    Task task = joined(tasks);
    const Outcome expected = run_on(*interp::make_device(0), task), compiled = run_on(*unoptimised(), task);
    task.program = solve_writes(task.program);
    const Outcome interpreted = run_on(*interp::make_device(0), task);
    for (uint32_t k = 0; k < kTogether; ++k) {
      EXPECT_EQ(interpreted.observed[k].values(), expected.observed[k].values()) << "seed " << 1 + group * kTogether + k << ":\n" << body_of(tasks[k].program) << body_of(solve_writes(tasks[k].program));
      EXPECT_EQ(compiled.observed[k].values(), expected.observed[k].values()) << "compiled, seed " << 1 + group * kTogether + k << ":\n" << body_of(tasks[k].program) << body_of(solve_writes(tasks[k].program));
    }
  }
  EXPECT_GT(overlapping, 200);
  EXPECT_EQ(solved, overlapping);
}

// The gradients of random windows by what they read and by their kernel.
struct WindowTask {
  std::string text;
  Task task;
};
WindowTask random_window(uint32_t seed) {
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) { return low + int(random() % uint32_t(high - low + 1)); };
  std::string read, kernel, result, x_shape, w_shape;
  const int axes = pick(1, 2);
  for (int axis = 0; axis < axes; ++axis) {
    const std::string o(1, char('o' + axis)), k(1, char('j' + axis)), comma = axis ? ", " : "";
    const int stride = pick(1, 4), dilation = pick(1, 3), size = pick(1, 5), reach = dilation * (size - 1);
    const std::string pads[] = {"", "", "=", reach > 0 ? "<" + std::to_string(pick(1, reach)) : ""};
    read += comma + std::to_string(stride) + "*" + o + pads[pick(0, 3)] + "+" + std::to_string(dilation) + "*" + k;
    kernel += comma + k, result += comma + o;
    x_shape += (axis ? "," : "") + std::to_string(reach + 1 + pick(0, 9)), w_shape += (axis ? "," : "") + std::to_string(size);
  }
  const bool channels = pick(0, 1);
  if (channels) read = "b, " + read + ", c", kernel = kernel + ", c, d", result = "b, " + result + ", d", x_shape = "2," + x_shape + ",2", w_shape += ",2,3";
  auto drawn = [&](const std::string& shape) {
    Array out(parse_shape(shape), DType::f64);
    for (int64_t e = 0; e < out.size(); ++e) out.set(e, double(pick(-1000, 1000)) / 997);
    return out;
  };
  Tensor x = param("x", drawn(x_shape)), w = param("w", drawn(w_shape));
  const std::string text = read + "; " + kernel + " => " + result;
  Tensor y = einsum(spec(text), x, w);
  Tensor cotangent = tensor(drawn(to_string(Context({.device = "interp"}).shape(y))));
  auto [dx, dw] = grad(dot(y, cotangent), x, w);
  return {text + " of " + x_shape + " and " + w_shape, task_of(observe({dx, dw}))};
}
TEST(SolveWrites, GradientsOfRandomWindows) {
  constexpr uint32_t kGroups = 6, kTogether = 60;
  for (uint32_t group = 0; group < kGroups; ++group) {
    std::vector<Task> tasks;
    std::vector<std::string> texts;
    for (uint32_t k = 0; k < kTogether; ++k) {
      WindowTask window = random_window(1 + group * kTogether + k);
      const ir::Program q = run(window.task.program).optimized;
      for (const ir::Accumulation& a : q.accumulations) EXPECT_TRUE(ir::write_form(q, a).injective) << window.text << "\n" << body_of(q);
      texts.push_back(window.text), tasks.push_back(std::move(window.task));
    }
    const Task task = joined(tasks);
    const Outcome expected = run_on(*interp::make_device(0), task);
    for (const char* off : {"", "solve_writes"}) {
      const Outcome actual = run_on(*unoptimised(), task, 1, {*off ? std::vector<std::string>{off} : std::vector<std::string>{}});
      for (size_t o = 0; o < expected.observed.size(); ++o) {
        double largest = 0;
        for (double v : expected.observed[o].values()) largest = std::max(largest, std::abs(v));
        for (int64_t e = 0; e < expected.observed[o].size(); ++e)
          ASSERT_LE(std::abs(actual.observed[o].at(e) - expected.observed[o].at(e)), 1e-12 * largest) << texts[o / 2] << (o % 2 ? ", by the kernel" : ", by what is read") << ", without `" << off << "`, element " << e;
      }
    }
  }
}

// The program with its accumulations in this order.
ir::Program in_order(const Program& program, const std::vector<std::string>& targets) {
  const ir::Program p = remove_unused(copy_leaves(to_ir(program)));
  ir::Program out = p;
  out.accumulations.clear();
  for (const std::string& target : targets)
    for (const ir::Accumulation& a : p.accumulations)
      if (p.buffers[size_t(a.target)].name == target) out.accumulations.push_back(a);
  EXPECT_EQ(out.accumulations.size(), p.accumulations.size()) << body_of(p);
  ir::verify(out);
  return out;
}
std::vector<std::string> order_of(const ir::Program& program) {
  std::vector<std::string> out;
  for (const ir::Accumulation& a : program.accumulations) out.push_back(program.buffers[size_t(a.target)].name);
  return out;
}
TEST(PackOperands, BeforeAndAfter) {
  expect_rows(pack_operands, {
      {"a short sum, many rows: the weights are copied with the written axis last", [] { return observe(einsum("b,k; o,k => b,o", leaf("x", "16,3"), leaf("w", "8,3")).named("y")); },
       "y[b, o] += x[b, k] * w[o, k]   for b < 16, o < 8, k < 3\n", R"(
packed w 3[i0, i1] += w[i1, i0]   for i0 < 3, i1 < 8
y[b, o] += x[b, k] * packed w 3[k, o]   for b < 16, o < 8, k < 3
)"},
      {"a window: one copy for both that read it so",
       [] {
         Tensor w = leaf("w", "8,3");
         return observe({einsum("i+k; o,k => i,o", leaf("x", "20"), w).named("y"), einsum("i+k; o,k => i,o", leaf("z", "20"), w).named("v")});
       },
       R"(
y[i, o] += x[i + k] * w[o, k]   for i < 18, o < 8, k < 3
v[i, o] += z[i + k] * w[o, k]   for i < 18, o < 8, k < 3
)", R"(
packed w 5[i0, i1] += w[i1, i0]   for i0 < 3, i1 < 8
y[i, o] += x[i + k] * packed w 5[k, o]   for i < 18, o < 8, k < 3
v[i, o] += z[i + k] * packed w 5[k, o]   for i < 18, o < 8, k < 3
)"},
  });
}
TEST(PackOperands, MustRefuse) {
  expect_refused(pack_operands, {
      {"few rows", [] { return observe(einsum("b,k; o,k => b,o", leaf("x", "15,3"), leaf("w", "8,3"))); }},
      {"a written axis too short for lanes", [] { return observe(einsum("b,k; o,k => b,o", leaf("x", "64,3"), leaf("w", "7,3"))); }},
      {"no sum", [] { return observe(einsum("b; o,k => b,k,o", leaf("x", "64"), leaf("w", "8,3"))); }},
      {"another operand that cannot be packed", [] { return observe(einsum("b,2*o+k; o,k => b,o", leaf("x", "64,17"), leaf("w", "8,3"))); }},
      {"neighbours already", [] { return observe(einsum("b,k; k,o => b,o", leaf("x", "64,3"), leaf("w", "3,8"))); }},
      {"an index tensor", [] { return observe(gather(leaf("t", "3->9"), tensor(Array(parse_shape("64|"), std::vector<double>(64, 1), DType::i32)))); }},
  });
  const ir::Program split = split_sums(remove_unused(copy_leaves(to_ir(observe(einsum("b,k; o,k => b,o", leaf("x", "64,32"), leaf("w", "8,32")))))));
  EXPECT_EQ(body_of(pack_operands(split)), body_of(split)) << "a split sum";
}

TEST(DelayUpdates, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    std::vector<std::string> before, after;
  };
  const Row rows[] = {
      {"an update comes after the last reader of the old value",
       [] {
         Tensor w = leaf("w", "3");
         return assign(w, exp(w).named("new")) & observe(sin(w).named("old"));
       },
       {"new", "old"}, {"old", "new"}},
      {"the gradient comes directly before its update, behind the reader of the weight",
       [] {
         Tensor w = leaf("w", "3->3"), x = leaf("x", "2|3"), dy = leaf("dy", "2|3");
         Tensor dw = einsum("b|o; b|i => i->o", dy, x).named("dw"), dx = einsum("b|o; i->o => b|i", dy, w).named("dx");
         return assign(w, (w - dw).named("new")) & observe(dx);
       },
       {"dw", "new", "dx"}, {"dx", "dw", "new"}},
      {"random bits read the old step",
       [] {
         Tensor step = state("step", {.batch = Extents{}, .input = Extents{}, .output = Extents{}, .init = zeros(), .dtype = DType::i64});
         return assign(step, (step + 1).named("next")) & observe(cast(random_bits("s", {.output = {2}, .step = step}), DType::f32).named("bits"));
       },
       {"next", "bits"}, {"bits", "next"}},
      {"a computed step comes before the random bits that it keys",
       [] {
         Tensor a = leaf("a", ""), step = cast(a * 2, DType::i64).named("step");
         return observe(cast(random_bits("s", {.output = {2}, .step = step}), DType::f32).named("bits")) & assign(a, exp(a).named("next"));
       },
       {"mul", "step", "next", "bits"}, {"mul", "next", "step", "bits"}},
      {"a reader that needs the new value stays behind it",
       [] {
         Tensor w = leaf("w", "3"), next = exp(w).named("new");
         return assign(w, next) & observe((next * w).named("both"));
       },
       {"new", "both"}, {"new", "both"}},
      {"one true conflict holds up nothing else: v waits for its reader, which is found behind u's circle",
       [] {
         Tensor u = leaf("u", "3"), v = leaf("v", "3"), next = exp(u).named("new u"), both = (next * u).named("both");
         return assign(v, exp(v).named("new v")) & assign(u, next) & observe(both) & observe((sin(v) + both).named("old v"));
       },
       {"new v", "new u", "both", "sin", "old v"}, {"new u", "both", "sin", "new v", "old v"}},
  };
  for (const Row& row : rows) {
    const ir::Program before = in_order(row.program(), row.before), after = delay_updates(before);
    ir::verify(after);
    EXPECT_EQ(order_of(after), row.after) << row.name;
    EXPECT_EQ(order_of(delay_updates(after)), row.after) << row.name << ", a second time";
  }
}
TEST(DelayUpdates, MustRefuse) {
  struct Row {
    const char* reason;
    std::function<Program()> program;
  };
  const Row rows[] = {
      {"the reader of the old value needs the new one too",
       [] {
         Tensor w = leaf("w", "3"), next = exp(w).named("new");
         return assign(w, next) & observe((next * w).named("both"));
       }},
      {"nothing is assigned", [] { return observe(exp(leaf("w", "3"))) & observe(sin(leaf("v", "3"))); }},
  };
  for (const Row& row : rows) {
    const ir::Program before = remove_unused(copy_leaves(to_ir(row.program())));
    EXPECT_EQ(body_of(delay_updates(before)), body_of(before)) << row.reason;
  }
}

// ---------------------------------------------------------------- over loops

using LoopPass = loop::Module (*)(const loop::Module&);

struct LoopRow {
  const char* name;
  std::function<Program()> program;
  std::vector<LoopPass> first;  // passes before it
  const char* after;
};
loop::Module lowered(const Program& program) { return lower::lower(delay_updates(remove_unused(copy_leaves(to_ir(program))))); }
std::string loops(const loop::Module& module) { return joined(lines_of(loop::to_string(module))); }

void expect_rows(LoopPass pass, const std::vector<LoopRow>& rows) {
  for (const LoopRow& row : rows) {
    SCOPED_TRACE(row.name);
    loop::Module module = lowered(row.program());
    for (LoopPass earlier : row.first) module = earlier(module);
    const loop::Module after = pass(module);
    loop::verify(after);
    EXPECT_EQ(loops(after), trimmed(row.after));
    EXPECT_EQ(loops(pass(after)), loops(after)) << "a second time";
  }
}
struct LoopRefusalRow {
  const char* reason;
  std::function<Program()> program;
  std::vector<LoopPass> first;
};
void expect_refused(LoopPass pass, const std::vector<LoopRefusalRow>& rows) {
  for (const LoopRefusalRow& row : rows) {
    loop::Module module = lowered(row.program());
    for (LoopPass earlier : row.first) module = earlier(module);
    EXPECT_EQ(loops(pass(module)), loops(module)) << row.reason;
  }
}

TEST(Fuse, BeforeAndAfter) {
  expect_rows(fuse, {
      {"the epilogue of a product", [] { return observe(relu(leaf("w", "3->2")(leaf("x", "4|3")).named("h")).named("y")); }, {}, R"(
kernel y
  for b0 < 4:
    for o0 < 2:
      r3:f32 := 0
      for k0 < 3:
        r0:f32 = w[3*o0 + k0]
        r1:f32 = x[3*b0 + k0]
        r2:f32 = mul(r0, r1)
        r3 += r2
      h[2*b0 + o0] = r3
      r4:f32 = h[2*b0 + o0]
      r5:f32 = relu(r4)
      y[2*b0 + o0] = r5
)"},
      {"two of three kernels",
       [] {
         Tensor a = exp(leaf("a", "3")).named("x");
         return observe({a, sin(leaf("b", "5")).named("other"), cos(a).named("y")});
       },
       {}, R"(
kernel other
  for o0 < 5:
    r0:f32 = b[o0]
    r1:f32 = sin(r0)
    other[o0] = r1
kernel y
  for o0 < 3:
    r0:f32 = a[o0]
    r1:f32 = exp(r0)
    x[o0] = r1
    r2:f32 = x[o0]
    r3:f32 = cos(r2)
    y[o0] = r3
)"},
      {"what only needs whole rows, behind the loop that makes them", [] { return observe(exp(einsum("ij=>i", leaf("a", "3,4")).named("s")).named("y")); }, {}, R"(
kernel y
  for i < 3:
    r1:f32 := 0
    for j < 4:
      r0:f32 = a[4*i + j]
      r1 += r0
    s[i] = r1
    r2:f32 = s[i]
    r3:f32 = exp(r2)
    y[i] = r3
)"},
      {"the parts of a softmax, which share rows and not elements: one loop over rows",
       [] {
         Tensor x = leaf("x", "3|4"), e = exp(x - einmax("n|c => n|0", x).named("m")).named("e");
         return observe((e / einsum("n|c => n|0", e).named("s")).named("y"));
       },
       {}, R"(
kernel y
  for n < 3:
    r1:f32 := -inf
    for c < 4:
      r0:f32 = x[4*n + c]
      r1 max= r0
    m[n] = r1
    for o0 < 4:
      r2:f32 = x[4*n + o0]
      r3:f32 = m[n]
      r4:f32 = sub(r2, r3)
      sub[4*n + o0] = r4
      r5:f32 = sub[4*n + o0]
      r6:f32 = exp(r5)
      e[4*n + o0] = r6
    r8:f32 := 0
    for c < 4:
      r7:f32 = e[4*n + c]
      r8 += r7
    s[n] = r8
    for o0 < 4:
      r9:f32 = e[4*n + o0]
      r10:f32 = s[n]
      r11:f32 = div(r9, r10)
      y[4*n + o0] = r11
)"},
      {"two that read the same rows, past one that does not",
       [] {
         Tensor a = leaf("a", "2,3");
         return observe({einsum("ij=>i", a).named("s"), einsum("ij=>j", a).named("columns"), einmax("ij=>i", a).named("m")});
       },
       {}, R"(
kernel m
  for i < 2:
    r1:f32 := 0
    for j < 3:
      r0:f32 = a[3*i + j]
      r1 += r0
    s[i] = r1
    r3:f32 := -inf
    for j < 3:
      r2:f32 = a[3*i + j]
      r3 max= r2
    m[i] = r3
kernel columns
  for j < 3:
    r1:f32 := 0
    for i < 2:
      r0:f32 = a[j + 3*i]
      r1 += r0
    columns[j] = r1
)"},
  });
}
// Softmax, layer norm and cross-entropy, and their gradients: one kernel over rows each, but for what sums over rows.
TEST(Fuse, PartsThatShareRowsAreOneKernel) {
  auto kernels = [](const std::vector<Tensor>& seen) { return run(to_ir(observe(seen))).scheduled.kernels.size(); };
  Tensor x = leaf("x", "32|64"), g = leaf("g", "32|64"), t = leaf("t", "32|64");
  Tensor e = exp(x - einmax("...|i => ...|0", x)), softmax = e / einsum("...|i => ...|0", e);
  EXPECT_EQ(kernels({softmax}), 1u);
  EXPECT_EQ(kernels({softmax, grad(sum(softmax * g), x)}), 1u);
  Tensor centred = x - einsum("...|i => ...|0", x) / 64, norm = centred * rsqrt(einsum("...|i => ...|0", square(centred)) / 64 + 1e-5);
  EXPECT_EQ(kernels({norm}), 1u);
  EXPECT_EQ(kernels({norm, grad(sum(norm * g), x)}), 1u);
  Tensor m = einmax("...|i => ...|0", x), all = log(einsum("...|i => ...|0", exp(x - m))) + m;
  Tensor loss = sum(einsum("...|i => ...|0", (all - x) * t));
  EXPECT_EQ(kernels({loss}), 2u);
  EXPECT_EQ(kernels({grad(loss, x)}), 1u);
  EXPECT_EQ(kernels({grad(loss / 32, x)}), 1u) << "the number 1/32 is no kernel of its own";
  Tensor s = leaf("s", "2,8|8->4"), es = exp(s - einmax("...s|t->h => ...s|0->h", s)), attention = es / einsum("...s|t->h => ...s|0->h", es);
  EXPECT_EQ(kernels({attention}), 1u);
  EXPECT_EQ(kernels({attention, grad(sum(attention * leaf("gs", "2,8|8->4")), s)}), 1u);
}
TEST(Fuse, MustRefuse) {
  expect_refused(fuse, {
      {"rows that do not line up: the reader wants the transposition", [] { return observe(einsum("ij=>ji", exp(leaf("a", "3,3")))); }, {}},
      {"rows that do not line up: the reader is shifted", [] { return observe(einsum("1*o+1 => o", exp(leaf("a", "4")))); }, {}},
      {"rows that do not line up: the reader runs backwards", [] { return observe(einsum("-i=>i", exp(leaf("a", "4")))); }, {}},
      {"rows that overlap: a padded window over as many rows", [] { return observe(einsum("o<1+k; k => o", exp(leaf("a", "4")), leaf("w", "3"))); }, {}},
      {"unmatched factors: the reader takes every second", [] { return observe(einsum("2*n+k => n", exp(leaf("a", "8")), {{"k", 2}})); }, {}},
      {"the same extents over other rows: i&j of 2, 3 against 3, 2", [] { return observe(einsum("i&j => i, j", einsum("i, j => i&j", leaf("a", "2,3")), {{"i", 3}})); }, {}},
      {"rows of a product, which would be streamed again for each",
       [] {
         Tensor h = leaf("w", "3->5")(leaf("x", "4|3"));
         return observe(einsum("b|o => b|", h));
       },
       {}},
      {"two products that read the same rows", [] {
         Tensor x = leaf("x", "4|3");
         return observe({leaf("v", "3->2")(x), leaf("w", "3->2")(x)});
       }, {}},
      {"an operand that all rows read whole", [] {
         Tensor b = leaf("b", "4");
         return observe({einsum("ij;j=>i", leaf("v", "3,4"), b), einsum("ij;j=>i", leaf("w", "3,4"), b)});
       }, {}},
      {"a sum that must be complete", [] { return observe(leaf("b", "4") * sum(leaf("a", "4"))); }, {}},
      {"offsets through an index tensor", [] { return observe(gather(einsum("v,d=>v->d", exp(leaf("t", "3,2"))), tensor(Array::vector({2, 0, 1}, DType::i32)))); }, {}},
  });
}
loop::Module split_lowered(const Program& program) { return lower::lower(split_sums(remove_unused(copy_leaves(to_ir(program))))); }
TEST(Fuse, KeepsLanes) {
  auto kernels = [](const loop::Module& module) { return fuse(module).kernels.size(); };
  Tensor d = leaf("d", "9"), w = leaf("w", "9,12");
  auto down = [&] { return einsum("o; o,k => k", d, w); };
  EXPECT_EQ(kernels(lowered(observe(relu(down())))), 1u) << "what is computed for each row";
  EXPECT_EQ(kernels(lowered(observe(exp(down())))), 1u) << "a function of rows that run at once";
  EXPECT_EQ(kernels(lowered(observe(einsum("k; j => k,j", down(), leaf("x", "20"))))), 2u) << "a loop along memory in a row of a sum across it";
  auto along = [&] { return einsum("o,k; k => o", leaf("v", "9,64"), leaf("x", "64")); };
  EXPECT_EQ(kernels(split_lowered(observe(relu(along())))), 1u) << "arithmetic on the rows of a split sum";
  EXPECT_EQ(kernels(split_lowered(observe(exp(along())))), 2u) << "a function of them";
}
TEST(Fuse, MustNotMoveANewValueBeforeAReaderOfTheOldOne) {  // or it could not be stored in place
  Tensor w = leaf("w", "3"), g = exp(leaf("a", "3")).named("g");
  const Program p = observe({g, einsum("-i=>i", w).named("old")}) & assign(w, (w - g).named("new"));
  const loop::Module after = fuse(lower::lower(in_order(p, {"g", "old", "new"})));
  EXPECT_EQ(after.kernels.size(), 3u);
  EXPECT_TRUE(update_in_place(after).assignments.empty());
}
TEST(Fuse, PastAKernelThatTouchesNeither) {
  Tensor x = exp(leaf("a", "3")).named("x");
  const Program p = observe({x, sin(leaf("b", "5")).named("other"), cos(x).named("y")});
  const loop::Module after = fuse(lower::lower(in_order(p, {"x", "other", "y"})));
  ASSERT_EQ(after.kernels.size(), 2u);
  EXPECT_EQ(after.kernels[0].name, "y");
  EXPECT_EQ(after.kernels[1].name, "other");
}
TEST(Fuse, KernelsStayBounded) {
  std::vector<Tensor> seen;
  Tensor x = leaf("x", "4");
  for (int k = 0; k < 200; ++k) seen.push_back(x = x * 1.5 + k);
  const loop::Module after = fuse(lowered(observe(seen)));
  EXPECT_GT(after.kernels.size(), 2u);
  for (const loop::Kernel& kernel : after.kernels) EXPECT_LE(kernel.comments.size(), kMostAccumulations);
}

TEST(ForwardStores, BeforeAndAfter) {
  expect_rows(forward_stores, {
      {"a stored register is not loaded again, and then nobody reads the buffer", [] { return observe(relu(einsum("ij=>i", leaf("a", "3,4"))).named("y")); }, {fuse}, R"(
kernel y
  for i < 3:
    r1:f32 := 0
    for j < 4:
      r0:f32 = a[4*i + j]
      r1 += r0
    r3:f32 = relu(r1)
    y[i] = r3
)"},
      {"an observed buffer is still stored",
       [] {
         Tensor e = exp(leaf("a", "3")).named("e");
         return observe({e, sin(e).named("y")});
       },
       {fuse}, R"(
kernel y
  for o0 < 3:
    r0:f32 = a[o0]
    r1:f32 = exp(r0)
    e[o0] = r1
    r3:f32 = sin(r1)
    y[o0] = r3
)"},
      {"an argmax that is read keeps its best value",
       [] { return observe((argmax("ij=>i", leaf("a", "3,4")) + 1).named("y")); },
       {fuse}, R"(
kernel y
  for i < 3:
    r1:f32 := 0
    r2:i64 := -1
    for j < 4:
      r0:f32 = a[4*i + j]
      r1, r2 argmax= r0 at j
    r4:f64 = 1
    r5:i64 = add(r2, r4)
    y[i] = r5
)"},
  });
}
TEST(ForwardStores, MustRefuse) {
  expect_refused(forward_stores, {
      {"a register that storing rounds", [] { return observe(sin(cast(leaf("a", "3"), DType::f16))); }, {fuse}},
      {"out of the loop in which it was stored", [] { return observe(sum(exp(leaf("a", "3")))); }, {}},
  });
}
TEST(ForwardStores, MustNotForwardWhatHasChanged) {  // kernels as no pass makes them today: y is written, then z from it
  using namespace loop;
  ir::Program program;
  auto buffer = [&](const char* name, DType dtype) {
    program.buffers.push_back({name, parse_shape("4"), dtype, ir::Computed{}, {}});
    program.observed.push_back(ir::BufferId(program.buffers.size()) - 1);
    return program.observed.back();
  };
  const ir::BufferId a = buffer("a", DType::f32), y = buffer("y", DType::f32), z = buffer("z", DType::f32), at = buffer("at", DType::i64);
  const Term zero = Term::number(0), i = Term::iterator(0);
  // r0 = a[0], r1 = a[1]; y[0] = r0 at first, r2 = y[0] and z[..] = r2 at last. r3 is an accumulator.
  const Statement first = Define{0, Load{a, zero}}, other = Define{1, Load{a, Term::number(1)}}, put = Store{y, zero, 0}, get = Define{2, Load{y, zero}}, keep = Store{z, zero, 2};
  auto loop = [](Block body) { return For{0, 4, LoopKind::serial, std::move(body)}; };
  struct Row {
    const char* reason;
    Block body;
  };
  const std::vector<Row> rows = {
      {"a store to another element, which may be the same", {first, other, loop({put, Store{y, i, 1}, get, Store{z, i, 2}})}},
      {"a store to the same element", {first, other, put, Store{y, zero, 1}, Define{3, Load{y, Term::number(2)}}, Store{z, zero, 3}}},
      {"a store in a loop between", {first, other, put, loop({Store{y, i, 1}}), get, keep}},
      {"a store later in the loop, seen by the next iteration", {first, other, put, loop({get, Store{z, i, 2}, Store{y, zero, 1}})}},
      {"a store under a condition between", {first, other, loop({put, If{{i}, {Store{y, zero, 1}}}, get, Store{z, i, 2}})}},
      {"a store under a condition, read outside", {first, loop({If{{Term::number(2) - i}, {put}}, get, Store{z, i, 2}})}},
      {"an addition in memory", {first, other, put, StoreCombine{y, zero, Accumulator::add, 1}, get, keep}},
      {"a winner in memory", {first, other, put, StoreFirst{at, y, zero, Accumulator::argmax, 1, zero}, get, keep}},
      {"a total that goes on after it was stored", {first, Reset{3, 0}, Store{y, zero, 3}, Combine{3, Accumulator::add, 0}, get, keep}},
      {"a total that a loop goes on with", {first, Reset{3, 0}, Store{y, zero, 3}, loop({Combine{3, Accumulator::add, 0}}), get, keep}},
  };
  for (const Row& row : rows) {
    Module module;
    module.name = program.name, module.symbols = program.symbols, module.buffers = program.buffers;
    module.assignments = program.assignments, module.observed = program.observed;
    module.kernels.push_back({"k", {}, {"i"}, {DType::f32, DType::f32, DType::f32, DType::f32}, row.body});
    EXPECT_EQ(to_string(forward_stores(module)), to_string(module)) << row.reason;
  }
  Module module;  // and what may be forwarded is
  module.name = program.name, module.symbols = program.symbols, module.buffers = program.buffers;
    module.assignments = program.assignments, module.observed = program.observed;
  module.kernels.push_back({"k", {}, {"i"}, {DType::f32, DType::f32, DType::f32, DType::f32}, {first, put, get, keep}});
  EXPECT_NE(to_string(forward_stores(module)), to_string(module));
}

TEST(Hoist, BeforeAndAfter) {
  expect_rows(hoist, {
      {"a factor of the row leaves the loop over it", [] { return observe(einsum("i; i, j => i", exp(leaf("a", "3")).named("e"), leaf("b", "3,4")).named("y")); }, {fuse, forward_stores}, R"(
kernel y
  for o0 < 3:
    r0:f32 = a[o0]
    r1:f32 = exp(r0)
    r5:f32 := 0
    for j < 4:
      r3:f32 = b[4*o0 + j]
      r4:f32 = mul(r1, r3)
      r5 += r4
    y[o0] = r5
)"},
      {"what is the same everywhere leaves all loops, with the number it is computed from", [] { return observe((leaf("b", "3,4") * (leaf("a", "") * 2)).named("y")); }, {}, R"(
kernel mul
  r0:f32 = a[0]
  r1:f64 = 2
  r2:f32 = mul(r0, r1)
  mul[0] = r2
kernel y
  r1:f32 = mul[0]
  for o0 < 3:
    for o1 < 4:
      r0:f32 = b[4*o0 + o1]
      r2:f32 = mul(r0, r1)
      y[4*o0 + o1] = r2
)"},
      {"a total that is complete does not change in the next loop",
       [] {
         Tensor a = leaf("a", "3,4");
         return observe(einsum("i,j; i => i,j", a, exp(einsum("i,j => i", a))).named("y"));
       },
       {fuse, forward_stores}, R"(
kernel y
  for i < 3:
    r1:f32 := 0
    for j < 4:
      r0:f32 = a[4*i + j]
      r1 += r0
    r3:f32 = exp(r1)
    for j < 4:
      r4:f32 = a[4*i + j]
      r6:f32 = mul(r4, r3)
      y[4*i + j] = r6
)"},
  });
}

// A kernel by hand over buffers a[3], b[3] (states) and y[3] (computed and observed), all f32; 0, 1 are loops of 3.
loop::Module by_hand(std::vector<DType> registers, loop::Block body) {
  loop::Module out;
  for (const char* name : {"a", "b", "y"}) {
    const bool computed = name[0] == 'y';
    out.buffers.push_back({name, parse_shape("3"), DType::f32, computed ? ir::BufferKind(ir::Computed{}) : ir::BufferKind(ir::StateLeaf{}), {}});
  }
  out.observed = {2};
  out.kernels.push_back({"k", {}, {"i", "j"}, std::move(registers), std::move(body)});
  loop::verify(out);
  return out;
}
loop::Statement looped(int variable, loop::Block body, int64_t extent = 3) { return loop::For{variable, extent, loop::LoopKind::serial, std::move(body)}; }
loop::Statement element(int to, int buffer, ir::Term offset) { return loop::Define{to, loop::Load{buffer, std::move(offset)}}; }
loop::Statement sum_of(int to, int a, int b) { return loop::Define{to, loop::Apply{Op::add, DType::f32, {a, b, -1}}}; }
const DType kF = DType::f32;
const ir::Term kFirst = ir::Term::number(0), kI = ir::Term::iterator(0), kJ = ir::Term::iterator(1);

struct HandRow {
  const char* reason;
  loop::Module module;
};
void expect_refused_by_hand(LoopPass pass, const std::vector<HandRow>& rows) {
  for (const HandRow& row : rows) EXPECT_EQ(loops(pass(row.module)), loops(row.module)) << row.reason;
}
TEST(Hoist, MustRefuse) {
  expect_refused(hoist, {
      {"values that name the loop's variable", [] { return observe(exp(leaf("a", "3"))); }, {}},
      {"a load under a guard", [] { return observe(einsum("i; j => i", leaf("a", "3"), leaf("b", "3"), {{"j <= i"}})); }, {}},
      {"what the loop accumulates", [] { return observe(einsum("ij=>i", exp(leaf("a", "3,4")))); }, {fuse, forward_stores}},
  });
  expect_refused_by_hand(hoist, {
      {"a load of what the loop stores", by_hand({kF, kF}, {looped(0, {element(0, 0, kI), element(1, 2, kFirst), loop::Store{2, kI, 0}})})},
      {"a load of what a loop inside stores", by_hand({kF, kF}, {looped(0, {element(1, 2, kFirst), looped(1, {element(0, 0, kJ), loop::Store{2, kJ, 0}})})})},
      {"a load out of a loop that does not run", by_hand({kF}, {looped(0, {element(0, 0, kFirst), loop::Store{2, kI, 0}}, 0)})},
      {"a value of a total that grows in the loop",
       by_hand({kF, kF, kF}, {loop::Reset{0, 0}, looped(0, {element(1, 0, kI), loop::Combine{0, Accumulator::add, 1}, sum_of(2, 0, 0), loop::Store{2, kI, 2}})})},
  });
}

TEST(MergeValues, BeforeAndAfter) {
  expect_rows(merge_values, {
      {"what two fused kernels both read and compute",
       [] {
         Tensor a = leaf("a", "3");
         return observe({sin(exp(a).named("e")).named("x"), cos(exp(a).named("f")).named("y")});
       },
       {fuse, forward_stores}, R"(
kernel y
  for o0 < 3:
    r0:f32 = a[o0]
    r1:f32 = exp(r0)
    r3:f32 = sin(r1)
    x[o0] = r3
    r7:f32 = cos(r1)
    y[o0] = r7
)"},
      {"a value of the loop around",
       [] {
         Tensor a = leaf("a", "3");
         return observe({exp(a).named("e"), einsum("i; i, j => i", exp(a).named("f"), leaf("b", "3,4")).named("y")});
       },
       {fuse, forward_stores, hoist}, R"(
kernel y
  for o0 < 3:
    r0:f32 = a[o0]
    r1:f32 = exp(r0)
    e[o0] = r1
    r7:f32 := 0
    for j < 4:
      r5:f32 = b[4*o0 + j]
      r6:f32 = mul(r1, r5)
      r7 += r6
    y[o0] = r7
)"},
  });
}
TEST(MergeValues, MustRefuse) {
  expect_refused(merge_values, {
      {"values of loops beside each other",
       [] {
         Tensor a = leaf("a", "3,4");
         return observe({einsum("ij=>i", a), einmax("ij=>i", a)});
       },
       {fuse}},
      {"operands in another place",
       [] {
         Tensor a = leaf("a", "3"), b = leaf("b", "3");
         return observe(sin((a - b).named("x")) * (b - a));
       },
       {}},
  });
  const loop::Define zero{1, loop::Constant{0.0}}, minus_zero{2, loop::Constant{-0.0}};
  expect_refused_by_hand(merge_values, {
      {"0 and -0", by_hand({kF, kF, kF, kF}, {zero, minus_zero, sum_of(3, 1, 2), loop::Store{2, kFirst, 3}})},
      {"another precision", by_hand({kF, kF, DType::f64, kF}, {zero, loop::Define{2, loop::Constant{0.0}}, sum_of(3, 1, 2), loop::Store{2, kFirst, 3}})},
      {"a load past a store to its buffer", by_hand({kF, kF, kF}, {element(0, 2, kFirst), loop::Store{2, kFirst, 0}, element(1, 2, kFirst), sum_of(2, 0, 1), loop::Store{2, kFirst, 2}})},
      {"a load in a loop that stores to its buffer later", by_hand({kF, kF, kF}, {element(0, 2, kFirst), looped(0, {element(1, 2, kFirst), sum_of(2, 0, 1), loop::Store{2, kFirst, 2}})})},
      {"a load behind a guard under which it is stored",
       by_hand({kF, kF, kF}, {looped(0, {element(0, 2, kFirst), loop::If{{kI}, {loop::Store{2, kI, 0}}}, element(1, 2, kFirst), sum_of(2, 0, 1), loop::Store{2, kI, 2}})})},
      {"a value under a guard that was left", by_hand({kF, kF}, {looped(0, {loop::If{{kI}, {element(0, 0, kI), loop::Store{2, kI, 0}}}, element(1, 0, kI), loop::Store{2, kI, 1}})})},
      {"a value of a total that grew",
       by_hand({kF, kF, kF, kF}, {loop::Reset{0, 0}, sum_of(1, 0, 0), loop::Combine{0, Accumulator::add, 1}, sum_of(2, 0, 0), sum_of(3, 1, 2), loop::Store{2, kFirst, 3}})},
  });
}

TEST(UpdateInPlace, BeforeAndAfter) {
  expect_rows(update_in_place, {
      {"an element is read before it is stored",
       [] {
         Tensor w = leaf("w", "3");
         return assign(w, w * 0.5);
       },
       {}, R"(
kernel mul
  for o0 < 3:
    r0:f32 = w[o0]
    r1:f64 = 0.5
    r2:f32 = mul(r0, r1)
    w[o0] = r2
)"},
      {"the update of a weight, in the loop of its gradient",
       [] {
         Tensor w = leaf("w", "3->2");
         return assign(w, w - einsum("b|o; b|i => i->o", leaf("dy", "4|2"), leaf("x", "4|3")));
       },
       {fuse, forward_stores}, R"(
kernel sub
  for o < 2:
    for i < 3:
      r3:f32 := 0
      for b < 4:
        r0:f32 = dy[o + 2*b]
        r1:f32 = x[i + 3*b]
        r2:f32 = mul(r0, r1)
        r3 += r2
      r4:f32 = w[i + 3*o]
      r6:f32 = sub(r4, r3)
      w[i + 3*o] = r6
)"},
      {"after a whole reader of the old value",
       [] {
         Tensor w = leaf("w", "3");
         return assign(w, exp(w)) & observe(sum(w).named("total"));
       },
       {}, R"(
kernel total
  r1:f32 := 0
  for o0 < 3:
    r0:f32 = w[o0]
    r1 += r0
  total[0] = r1
kernel exp
  for o0 < 3:
    r0:f32 = w[o0]
    r1:f32 = exp(r0)
    w[o0] = r1
)"},
  });
}
TEST(UpdateInPlace, MustRefuse) {
  expect_refused(update_in_place, {
      {"an update before the old value's last reader",
       [] {
         Tensor w = leaf("w", "3"), next = exp(w);
         return assign(w, next) & observe(sum(next * w));
       },
       {}},
      {"the same in one kernel, where the new value is in a register",
       [] {
         Tensor w = leaf("w", "3"), next = exp(w);
         return assign(w, next) & observe(next * w);
       },
       {fuse, forward_stores}},
      {"other elements of the old value",
       [] {
         Tensor w = leaf("w", "3");
         return assign(w, einsum("-i=>i", w));
       },
       {}},
      {"a reduction over the old value",
       [] {
         Tensor w = leaf("w", "3,3");
         return assign(w, einsum("ij;jk=>ik", w, w));
       },
       {}},
      {"a value that is observed",
       [] {
         Tensor w = leaf("w", "3"), next = exp(w);
         return assign(w, next) & observe(next);
       },
       {}},
      {"a value that two states get",
       [] {
         Tensor v = leaf("v", "3"), w = leaf("w", "3"), next = exp(v);
         return assign(v, next) & assign(w, next);
       },
       {}},
      {"more than one store: elements that are not written are filled",
       [] {
         return assign(leaf("w", "4"), einsum("i^1 => 1^i", leaf("b", "4")));
       },
       {}},
  });
  // Without copy_leaves a state itself may be observed: what is seen is the old value.
  Tensor w = leaf("w", "3");
  const loop::Module seen = lower::lower(to_ir(assign(w, exp(w)) & observe(w)));
  ASSERT_EQ(seen.observed, std::vector<ir::BufferId>{seen.assignments[0].state});
  EXPECT_EQ(update_in_place(seen).assignments.size(), 1u);
  // Of a swap one half can be in place, after the other was copied.
  Tensor a = leaf("a", "3"), b = leaf("b", "3");
  EXPECT_EQ(update_in_place(lowered(assign(a, b) & assign(b, a))).assignments.size(), 1u);
}

TEST(RunForwards, BeforeAndAfter) {
  expect_rows(run_forwards, {
      {"a sum that is read backwards", [] { return observe(einsum("i, -j =>", leaf("a", "4,3")).named("y")); },
       R"(
y += a[i, 2 - j]   for i < 4, j < 3
)",
       R"(
y += a[i, j]   for i < 4, j < 3
)"},
      {"of a copy, as what it copies is read", [] { return observe(sum(einsum("i, -j => i, j", leaf("a", "4,3")).named("t")).named("y")); },
       R"(
t[i, j] += a[i, 2 - j]   for i < 4, j < 3
y += t[o0, o1]   for o0 < 4, o1 < 3
)",
       R"(
t[i, j] += a[i, 2 - j]   for i < 4, j < 3
y += t[o0, 2 - o1]   for o0 < 4, o1 < 3
)"},
      {"both operands, and the largest", [] { return observe(einmax("i, -j; -j => i", leaf("a", "4,3"), leaf("b", "3")).named("y")); },
       R"(
y[i] max= a[i, 2 - j] * b[2 - j]   for i < 4, j < 3
)",
       R"(
y[i] max= a[i, j] * b[j]   for i < 4, j < 3
)"},
  });
}
TEST(RunForwards, MustRefuse) {
  expect_refused(run_forwards, {
      {"forwards already", [] { return observe(sum(leaf("a", "4,3"))); }},
      {"another operand is read forwards", [] { return observe(einsum("i, -j; j => i", leaf("a", "4,3"), leaf("b", "3"))); }},
      {"the axis is written", [] { return observe(einsum("i, -j => i, j", leaf("a", "4,3"))); }},
      {"the first winner counts", [] { return observe(argmax("i, -j => i", leaf("a", "4,3"))); }},
      {"a copy of the other direction cancels it", [] { return observe(einsum("-j =>", einsum("-i => i", leaf("a", "3")))); }},
  });
}

TEST(SplitSums, Choice) {
  struct Row {
    const char* name;
    std::function<Tensor()> tensor;
    const char* split;  // the iterator, or ""
  };
  const Row rows[] = {
      {"a product with the weights of a linear map: neighbours are inputs", [] { return leaf("w", "64->48")(leaf("x", "4|64")); }, "k0"},
      {"the gradient by its input: neighbours are written side by side", [] { return einsum("o,i; b,o => b,i", leaf("w", "48,64"), leaf("x", "4,48")); }, ""},
      {"the gradient by the weights", [] { return einsum("b,o; b,i => o,i", leaf("d", "40,48"), leaf("x", "40,64")); }, ""},
      {"a sum of everything", [] { return einsum("i,j => ", leaf("a", "4,64")); }, "j"},
      {"a sum over columns: every second element", [] { return einsum("i,j => j", leaf("a", "64,4")); }, ""},
      {"too short to be worth it", [] { return einsum("i,j => ", leaf("a", "64,31")); }, ""},
      {"a maximum has no order", [] { return einmax("i,j => i", leaf("a", "4,64")); }, ""},
      {"integers", [] { return einsum("i,j => i", cast(leaf("a", "4,64"), DType::i32)); }, ""},
      {"written through an index tensor", [] { return scatter_add(leaf("v", "64|64"), tensor(Array(parse_shape("64|"), std::vector<double>(64, 1), DType::i32)), 3); }, ""},
  };
  for (const Row& row : rows) {
    const ir::Program p = split_sums(to_ir(observe(row.tensor())));
    ir::verify(p);
    const ir::Accumulation& last = p.accumulations.back();
    EXPECT_EQ(last.order.lanes < 0 ? "" : last.iterators[size_t(last.order.lanes)], row.split) << row.name << ": " << ir::to_string(p, last);
  }
}
TEST(SplitSums, MustRefuseWhatIsNotASumOverAReducedIterator) {
  for (int split : {0, 2, 7, -2}) {  // i is written; there are two iterators
    ir::Program p = to_ir(observe(einsum("i,j => i", leaf("a", "4,64"))));
    p.accumulations.back().order.lanes = split, p.accumulations.back().order.width = 8;
    EXPECT_THROW(ir::verify(p), InternalError) << split;
  }
}

struct SplitRow {
  const char* name;
  std::function<Program()> program;
  const char* after;
};
void expect_split_rows(const std::function<loop::Module(const loop::Module&)>& pass, const std::vector<SplitRow>& rows) {
  for (const SplitRow& row : rows) {
    SCOPED_TRACE(row.name);
    const loop::Module after = pass(split_lowered(row.program()));
    loop::verify(after);
    EXPECT_EQ(loops(after), trimmed(row.after));
    EXPECT_EQ(loops(pass(after)), loops(after)) << "a second time";
  }
}
TEST(SplitLoops, BeforeAndAfter) {
  expect_split_rows(split_loops, {
      {"lanes with partial sums, and what is left over", [] { return observe(einsum("i,j => i", leaf("a", "3,35")).named("y")); }, R"(
kernel y
  for i < 3:
    r1:f32 := 0
    for j_lane < 8:
      r2:f32 := 0
      for j < 4:
        r3:f32 = a[35*i + 8*j + j_lane]
        r2 += r3
      if 2 - j_lane >= 0:
        r4:f32 = a[35*i + j_lane + 32]
        r2 += r4
      r1 += r2
    y[i] = r1
)"},
      {"no lane has more than the others", [] { return observe(einsum("i,j; j => i", leaf("a", "3,32"), leaf("b", "32")).named("y")); }, R"(
kernel y
  for i < 3:
    r3:f32 := 0
    for j_lane < 8:
      r4:f32 := 0
      for j < 4:
        r5:f32 = a[32*i + 8*j + j_lane]
        r6:f32 = b[8*j + j_lane]
        r7:f32 = mul(r5, r6)
        r4 += r7
      r3 += r4
    y[i] = r3
)"},
      {"lanes go around all loops of the sum", [] { return observe(einsum("i,k,j => i", leaf("a", "3,2,32")).named("y")); }, R"(
kernel y
  for i < 3:
    r1:f32 := 0
    for j_lane < 8:
      r2:f32 := 0
      for k < 2:
        for j < 4:
          r3:f32 = a[64*i + 32*k + 8*j + j_lane]
          r2 += r3
      r1 += r2
    y[i] = r1
)"},
      {"but not with a rest, which would be a condition in those loops", [] { return observe(einsum("i,k,j => i", leaf("a", "3,2,33")).named("y")); }, R"(
kernel y
  for i < 3:
    r1:f32 := 0
    for k < 2:
      for j_lane < 8:
        r2:f32 := 0
        for j < 4:
          r3:f32 = a[66*i + 33*k + 8*j + j_lane]
          r2 += r3
        if -j_lane >= 0:
          r4:f32 = a[66*i + 33*k + j_lane + 32]
          r2 += r4
        r1 += r2
    y[i] = r1
)"},
      {"under a condition", [] { return observe(einsum("i<1+j; j => i", leaf("a", "40"), leaf("b", "40")).named("y")); }, R"(
kernel y
  for i < 3:
    r3:f32 := 0
    for j_lane < 8:
      r4:f32 := 0
      for j < 5:
        if i + 8*j + j_lane - 1 >= 0 and 40 - i - 8*j - j_lane >= 0:
          r5:f32 = a[i + 8*j + j_lane - 1]
          r6:f32 = b[8*j + j_lane]
          r7:f32 = mul(r5, r6)
          r4 += r7
      r3 += r4
    y[i] = r3
)"},
  });
}
TEST(SplitLoops, MustRefuse) {
  for (const char* spec : {"i,j => j", "i => "}) {  // side by side already; too short: split_sums chose neither
    const loop::Module module = split_lowered(observe(einsum(caravan::spec(spec, Source::here()), leaf("a", std::string(spec) == "i => " ? "20" : "64,64"))));
    EXPECT_EQ(loops(split_loops(module)), loops(module)) << spec;
  }
  const loop::Module module = split_lowered(observe(einmax("i,j => i", leaf("a", "3,64"))));
  EXPECT_EQ(loops(split_loops(module)), loops(module)) << "a maximum";
}
TEST(Vectorize, BeforeAndAfter) {
  auto both = [](const loop::Module& m) { return vectorize(split_loops(m)); };
  expect_split_rows(both, {
      {"a long pointwise loop", [] { return observe((leaf("a", "3,9") + 1).named("y")); }, R"(
kernel y
  for o0 < 3:
    for o1 < 9 vector:
      r0:f32 = a[9*o0 + o1]
      r1:f64 = 1
      r2:f32 = add(r0, r1)
      y[9*o0 + o1] = r2
)"},
      {"a product: blocks of lanes in blocks of rows, of as many as leave none over", [] { return observe(einsum("i,k; k,j => i,j", leaf("a", "6,5"), leaf("b", "5,20")).named("y")); }, R"(
kernel y
  for i_block < 2 unrolled:
    for i_row < 3 unrolled:
      for j_in < 16 vector:
        r20:f32 := 0
        for k < 5:
          r21:f32 = a[k + 5*i_row + 15*i_block]
          r22:f32 = b[20*k + j_in]
          r23:f32 = mul(r21, r22)
          r20 += r23
        y[j_in + 20*i_row + 60*i_block] = r20
      for j_in < 4 vector:
        r24:f32 := 0
        for k < 5:
          r25:f32 = a[k + 5*i_row + 15*i_block]
          r26:f32 = b[20*k + j_in + 16]
          r27:f32 = mul(r25, r26)
          r24 += r27
        y[j_in + 20*i_row + 60*i_block + 16] = r24
)"},
      {"what is left over of both", [] { return observe(einsum("i,k; k,j => i,j", leaf("a", "11,5"), leaf("b", "5,9")).named("y")); }, R"(
kernel y
  for i_block < 2 unrolled:
    for i_row < 4 unrolled:
      for j_in < 8 vector:
        r28:f32 := 0
        for k < 5:
          r29:f32 = a[k + 5*i_row + 20*i_block]
          r30:f32 = b[9*k + j_in]
          r31:f32 = mul(r29, r30)
          r28 += r31
        y[j_in + 9*i_row + 36*i_block] = r28
      for j_in < 1:
        r32:f32 := 0
        for k < 5:
          r33:f32 = a[k + 5*i_row + 20*i_block]
          r34:f32 = b[9*k + j_in + 8]
          r35:f32 = mul(r33, r34)
          r32 += r35
        y[j_in + 9*i_row + 36*i_block + 8] = r32
  for i_row < 3 unrolled:
    for j_in < 8 vector:
      r20:f32 := 0
      for k < 5:
        r21:f32 = a[k + 5*i_row + 40]
        r22:f32 = b[9*k + j_in]
        r23:f32 = mul(r21, r22)
        r20 += r23
      y[j_in + 9*i_row + 72] = r20
    for j_in < 1:
      r24:f32 := 0
      for k < 5:
        r25:f32 = a[k + 5*i_row + 40]
        r26:f32 = b[9*k + j_in + 8]
        r27:f32 = mul(r25, r26)
        r24 += r27
      y[j_in + 9*i_row + 80] = r24
)"},
      {"one row: its blocks are taken together", [] { return observe(einsum("k; k,j => j", leaf("a", "5"), leaf("b", "5,64")).named("y")); }, R"(
kernel y
  for j_block < 4 unrolled:
    for j_in < 16 vector:
      r8:f32 := 0
      for k < 5:
        r9:f32 = a[k]
        r10:f32 = b[64*k + j_in + 16*j_block]
        r11:f32 = mul(r9, r10)
        r8 += r11
      y[j_in + 16*j_block] = r8
)"},
      {"a split sum: lanes of the sum, rows share what they read", [] { return observe(einsum("i,j; j => i", leaf("a", "4,32"), leaf("b", "32")).named("y")); }, R"(
kernel y
  for i_row < 4 unrolled:
    r12:f32 := 0
    for j_lane_in < 8 vector:
      r13:f32 := 0
      for j < 4:
        r14:f32 = a[8*j + j_lane_in + 32*i_row]
        r15:f32 = b[8*j + j_lane_in]
        r16:f32 = mul(r14, r15)
        r13 += r16
      r12 += r13
    y[i_row] = r12
)"},
      {"rows of both sides", [] { return observe(einsum("i,j; k,j => k,i", leaf("a", "2,32"), leaf("b", "2,32")).named("y")); }, R"(
kernel y
  for k_row < 2 unrolled:
    for i_row < 2 unrolled:
      r17:f32 := 0
      for j_lane_in < 8 vector:
        r18:f32 := 0
        for j < 4:
          r19:f32 = a[8*j + j_lane_in + 32*i_row]
          r20:f32 = b[8*j + j_lane_in + 32*k_row]
          r21:f32 = mul(r19, r20)
          r18 += r21
        r17 += r18
      y[i_row + 2*k_row] = r17
)"},
      {"the innermost loop is short: lanes of another", [] { return observe(einsum("b,o; b,k => o,k", leaf("a", "5,8"), leaf("b", "5,3")).named("y")); }, R"(
kernel y
  for k_row < 3 unrolled:
    for o_in < 8 vector:
      r8:f32 := 0
      for b < 5:
        r9:f32 = a[8*b + o_in]
        r10:f32 = b[3*b + k_row]
        r11:f32 = mul(r9, r10)
        r8 += r11
      y[3*o_in + k_row] = r8
)"},
  });
}
TEST(Vectorize, MustRefuse) {
  expect_refused(vectorize, {
      {"too short", [] { return observe(leaf("a", "3,7") + 1); }, {}},
      {"a chain of sums in one accumulator", [] { return observe(einsum("i => ", leaf("a", "20"))); }, {}},
      {"neighbours that are far apart", [] { return observe(einsum("i,j => i", leaf("a", "20,3"))); }, {}},
      {"elements that overlap", [] { return observe(einsum("o => o+k", leaf("a", "4"), {{"k", 3}})); }, {}},
  });
}
TEST(Vectorize, TheVerifierRefusesWhatCannotRunSideBySide) {
  auto refused = [](const Program& program) {
    loop::Module m = lowered(program);
    std::get<loop::For>(m.kernels.back().body.back()).kind = loop::LoopKind::vector;
    EXPECT_THROW(loop::verify(m), InternalError) << loops(m);
  };
  refused(observe(einsum("i => ", einsum("i=>i", leaf("a", "20")))) & observe(einsum("o => o+k", leaf("b", "20"), {{"k", 3}})));  // overlapping
  refused(observe(scatter_add(leaf("v", "4|"), tensor(Array(parse_shape("4|"), {0, 1, 0, 1}, DType::i32)), 2)));
}

TEST(Parallelize, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    std::vector<const char*> heads;  // the first line of each kernel's body
  };
  auto of = [](const char* name, const std::string& shape) { return passes::leaf(name, shape); };
  const Row rows[] = {
      {"a product's rows", [&] { return observe(einsum("ij;jk=>ik", of("a", "64,64"), of("b", "64,64"))); }, {"for i < 64 parallel by 2:"}},
      {"a large pointwise loop", [&] { return observe(exp(of("a", "64,1024"))); }, {"for o0 < 64 parallel by 10:"}},
      {"too little work", [&] { return observe(exp(of("a", "64"))); }, {"for o0 < 64:"}},
      {"a fill and what comes after it are kernels of their own", [&] { return observe(einsum("i^1,j => 1^i,j", of("a", "64,4096"))); },
       {"for e < 262144 parallel by 13108:", "for i < 63 parallel by 4:"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const loop::Module after = parallelize(lower::lower(to_ir(row.program())));
    loop::verify(after);
    std::vector<std::string> heads;
    for (const loop::Kernel& kernel : after.kernels) {
      const std::vector<std::string> lines = lines_of(loop::to_string(after, kernel));
      heads.push_back(lines.at(1).substr(2));
    }
    EXPECT_EQ(heads, std::vector<std::string>(row.heads.begin(), row.heads.end()));
  }
}
TEST(Parallelize, MustRefuse) {
  auto large = [](const char* name) { return passes::leaf(name, "64,4096"); };
  const Tensor ids = tensor(Array(parse_shape("4096|"), std::vector<double>(4096, 3), DType::i32));
  const RefusalRow rows[] = {
      {"a scatter: two iterations may add to one element", [&] { return observe(scatter_add(passes::leaf("v", "4096|64"), ids, 10)); }},
      {"a sum of everything has one accumulator", [&] { return observe(sum(large("a"))); }},
  };
  for (const RefusalRow& row : rows) {
    const loop::Module after = parallelize(lower::lower(to_ir(row.program())));
    for (const loop::Kernel& kernel : after.kernels)
      EXPECT_FALSE(loop::parallel_loop(kernel)) << row.reason << loop::to_string(after, kernel);
  }
}

// ---------------------------------------------------------------- the pipeline

TEST(Pipeline, NamesWhatCanBeSwitchedOffAndRefusesOtherNames) {
  const std::vector<std::string> all = plan::pass_names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  for (const char* name : {"join_parts", "simplify", "merge_equal", "inline_producers", "pack_operands", "delay_updates", "fuse", "forward_stores", "hoist", "merge_values", "update_in_place", "parallelize"})
    EXPECT_NE(std::find(all.begin(), all.end(), name), all.end()) << name;
  try {
    run(to_ir(observe(leaf("a", "2") + 1)), {.off = {"unroll"}});
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("there is no pass `unroll`; there are: "), std::string::npos) << e.what();
  }
}
TEST(Pipeline, NoFunctionOfTheTextCallsMoreThanItsShareOfKernels) {
  for (int kernels : {200, 256, 257, 1000}) {
    Tensor x = leaf("x", ""), y = x;
    for (int k = 0; k < kernels; ++k) y = sum(tanh(y) * leaf("w" + std::to_string(k), "2"));
    const loop::Module module = run(to_ir(observe(y))).scheduled;
    const std::string text = codegen::to_c(module);
    size_t longest = 0, now = 0, functions = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      if (line.starts_with("}")) now = 0;
      if (line.find("void caravan_run") != line.npos && line.ends_with("{")) ++functions;
      if (line.ends_with(");") && line.find("step") != line.npos) longest = std::max(longest, ++now);
    }
    EXPECT_LE(longest, codegen::kMostCalls) << kernels;
    EXPECT_GE(longest, std::min(codegen::kMostCalls, module.kernels.size())) << kernels;
    EXPECT_EQ(functions, module.kernels.size() <= codegen::kMostCalls ? 2 : 2 + (module.kernels.size() + codegen::kMostCalls - 1) / codegen::kMostCalls) << kernels;
  }
}
TEST(Pipeline, LogsEveryPassAndWhetherItChangedAnything) {
  std::map<std::string, bool> changed;
  for (const LogEntry& entry : run(to_ir(observe(exp(sin(leaf("a", "2")))))).log) changed[entry.pass] = changed[entry.pass] || entry.changed;
  std::map<std::string, bool> expected = {{"copy_leaves", false}, {"remove_unused", false}, {"run_forwards", false}, {"split_sums", false}, {"lower", true}, {"split_loops", false}};
  for (const std::string& name : plan::pass_names()) expected[name] = name == "inline_producers";
  EXPECT_EQ(changed, expected);
  for (const LogEntry& entry : run(to_ir(observe(leaf("a", "2") + 1)), {.off = plan::pass_names()}).log) EXPECT_EQ(entry.changed, entry.pass == "lower") << entry.pass;
}
TEST(Pipeline, EveryPassCanBeLeftOutAlone) {
  Tensor w = leaf("w", "3->2"), x = leaf("x", "4|3");
  const ir::Program p = to_ir(train_step(sum(square(relu(w(x)))), sgd({.lr = 0.1, .momentum = 0.9})));
  for (const std::string& name : plan::pass_names()) {
    const plan::Plan result = run(p, {.off = {name}});
    loop::verify(result.scheduled);
    for (const LogEntry& entry : result.log) EXPECT_NE(entry.pass, name);
  }
}

// A deep network of w(x) + b with its training step.
ir::Program network(int layers) {
  Tensor h = tensor({1, 2, 3});
  for (int k = 0; k < layers; ++k) {
    const std::string name = "layer" + std::to_string(k);
    h = param(name + ".w", {.output = {3}})(h) + param(name + ".b");
  }
  return to_ir(train_step(sum(h), sgd({.lr = 0.1})));
}
double seconds(const std::function<void()>& f) {  // of this process: other work on the machine does not count
  const std::clock_t start = std::clock();
  f();
  return double(std::clock() - start) / CLOCKS_PER_SEC;
}
void plan_all(const ir::Program& p) {
  const plan::Plan result = run(p);
  EXPECT_GT(result.memory.bytes, 0);
  EXPECT_GT(codegen::to_c(result.scheduled).size(), 1000u);
  EXPECT_TRUE(result.scheduled.assignments.empty()) << "every weight is updated in place";
}
TEST(Pipeline, TenThousandAccumulationsArePlannedInTwoSeconds) {
  const ir::Program p = network(1200);
  ASSERT_GE(p.accumulations.size(), 10'000u);
  const double taken = seconds([&] { plan_all(p); });
  RecordProperty("seconds", std::to_string(taken));
  if (kSanitized) GTEST_SKIP() << "sanitized builds are several times slower; it took " << taken << " s";
  EXPECT_LT(taken, 2);
}
TEST(Pipeline, CostGrowsWithTheSizeOfTheProgram) {
  const ir::Program small = network(300), large = network(1200);
  double least_small = 1e9, least_large = 1e9;
  for (int round = 0; round < 3; ++round) {
    least_small = std::min(least_small, seconds([&] { plan_all(small); }));
    least_large = std::min(least_large, seconds([&] { plan_all(large); }));
  }
  EXPECT_LT(least_large / least_small, 7) << least_large << " s after " << least_small << " s";
}

TEST(MemoryPlan, BuffersThatAreNeededTogetherDoNotOverlap) {
  Tensor x = leaf("x", "7"), w = leaf("w", "7->7");
  Tensor h = x;
  for (int k = 0; k < 6; ++k) h = sin(w(h));
  const plan::Plan made = run(to_ir(train_step(sum(h), sgd({.lr = 0.1}))), {.off = {"fuse"}});
  const loop::Module& module = made.scheduled;
  const plan::MemoryPlan& plan = made.memory;
  int64_t total = 0;
  for (const auto& a : plan.placements) {
    total += a.bytes;
    EXPECT_EQ(a.offset % 64, 0);
    EXPECT_LE(a.offset + a.bytes, plan.bytes);
    for (const auto& b : plan.placements) {
      if (&a == &b || a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
          << module.buffers[size_t(a.buffer)].name << " and " << module.buffers[size_t(b.buffer)].name;
    }
  }
  EXPECT_GT(plan.placements.size(), 10u);
  EXPECT_LT(plan.bytes, int64_t(plan.placements.size()) * 64 * 4) << "places are used again";
  EXPECT_GT(total, 0);
}

}  // namespace
}  // namespace caravan::passes
