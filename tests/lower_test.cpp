// From accumulations to loops to C: dumps of the typical shapes, the verdict on write maps, what the verifier of loops
// refuses, and the text of a whole training step.
#include "caravan/lower/lower.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "caravan/base/error.h"
#include "caravan/codegen/c.h"
#include "caravan/ir/write_form.h"
#include "caravan/ops/table.h"
#include "caravan/optimize/copy_leaves.h"
#include "caravan/plan/plan.h"
#include "programs.h"

namespace caravan::lower {
namespace {

using ir::write_form;
using ir::WriteForm;

Tensor leaf(const std::string& name, const std::string& shape) { return param(name, Array(parse_shape(shape))); }
Tensor ids(const std::vector<double>& values) { return tensor(Array::vector(values, DType::i32), "ids"); }
std::string loops(const loop::Module& module) { return joined(lines_of(loop::to_string(module))); }

// ---------------------------------------------------------------- dumps

struct Row {
  const char* name;
  std::function<Tensor()> tensor;
  const char* loops;      // as lowered
  const char* optimised;  // after the passes that join kernels; null where they change nothing
};
const Row kRows[] = {
    {"a matrix product: the total in a register",
     [] { return einsum("ij;jk=>ik", leaf("a", "3,4"), leaf("b", "4,2")); }, R"(
kernel y
  for i < 3:
    for k < 2:
      r3:f32 := 0
      for j < 4:
        r0:f32 = a[4*i + j]
        r1:f32 = b[k + 2*j]
        r2:f32 = mul(r0, r1)
        r3 += r2
      y[2*i + k] = r3
)",
     nullptr},
    {"bias and relu: the epilogue of the product",
     [] { return relu(leaf("w", "4->3")(leaf("x", "2|4")) + leaf("b", "3")); }, R"(
kernel apply
  for b0 < 2:
    for o0 < 3:
      r3:f32 := 0
      for k0 < 4:
        r0:f32 = w[4*o0 + k0]
        r1:f32 = x[4*b0 + k0]
        r2:f32 = mul(r0, r1)
        r3 += r2
      apply[3*b0 + o0] = r3
kernel add
  for b0 < 2:
    for o0 < 3:
      r0:f32 = apply[3*b0 + o0]
      r1:f32 = b[o0]
      r2:f32 = add(r0, r1)
      add[3*b0 + o0] = r2
kernel y
  for b0 < 2:
    for o0 < 3:
      r0:f32 = add[3*b0 + o0]
      r1:f32 = relu(r0)
      y[3*b0 + o0] = r1
)",
     R"(
kernel apply
  for b0 < 2:
    for o0 < 3:
      r3:f32 := 0
      for k0 < 4:
        r0:f32 = w[4*o0 + k0]
        r1:f32 = x[4*b0 + k0]
        r2:f32 = mul(r0, r1)
        r3 += r2
      r5:f32 = b[o0]
      r6:f32 = add(r3, r5)
      r7:f32 = relu(r6)
      y[3*b0 + o0] = r7
)"},
    {"the gradient of a padded window: gathered in a register, stored in range, nothing filled",
     [] {
       Tensor x = leaf("x", "6");
       return grad(sum(einsum("2*o<1+k; k => o", x, leaf("w", "3"))), x);
     },
     nullptr, R"(
kernel y
  for o_q < 4:
    for k_j < 2:
      if 2*o_q + k_j - 1 >= 0 and 6 - 2*o_q - k_j >= 0:
        r4:f32 := 0
        for k_m < 2:
          if o_q - k_m >= 0 and k_m - o_q + 2 >= 0 and 2 - 2*k_m - k_j >= 0:
            r0:f32 = w[2*k_m + k_j]
            r1:f64 = 1
            r2:f32 = cast r1 to f32
            r3:f32 = mul(r2, r0)
            r4 += r3
        y[2*o_q + k_j - 1] = r4
)"},
    {"a merged axis: every element is stored", [] { return einsum("i, j => i&j", leaf("x", "2,3")); }, R"(
kernel y
  for i < 2:
    for j < 3:
      r0:f32 = x[3*i + j]
      y[3*i + j] = r0
)",
     nullptr},
    {"a window of two axes: each condition as far out as it can stand",
     [] { return einsum("h<1+p, w<1+q, c; p, q, c => h, w", leaf("x", "3,3,2"), leaf("k", "3,3,2")); }, R"(
kernel y
  for h < 3:
    for w < 3:
      r3:f32 := 0
      for p < 3:
        if h + p - 1 >= 0 and 3 - h - p >= 0:
          for q < 3:
            if w + q - 1 >= 0 and 3 - w - q >= 0:
              for c < 2:
                r0:f32 = x[6*h + 2*w + 6*p + 2*q + c - 8]
                r1:f32 = k[6*p + 2*q + c]
                r2:f32 = mul(r0, r1)
                r3 += r2
      y[3*h + w] = r3
)",
     nullptr},
    {"an argmax: the best value and its position in registers", [] { return argmax("ij=>i", leaf("a", "3,4")); }, R"(
kernel y
  for i < 3:
    r1:f32 := 0
    r2:i32 := -1
    for j < 4:
      r0:f32 = a[4*i + j]
      r1, r2 argmax= r0 at j
    r3:i64 = cast r2 to i64
    y[i] = r3
)",
     nullptr},
    {"a scatter: ids are read once a point, and what is out of range adds nothing",
     [] {
       return scatter_add(leaf("x", "3,4"), ids({2, 0, 2}), 5);
     },
     R"(
kernel y
  for e < 20:
    r0:f32 = 0
    y[e] = r0
  for o0 < 3:
    for d0 < 4:
      r1:i32 = ids[o0]
      r2:i64 = cast r1 to i64
      if r2 >= 0 and 4 - r2 >= 0:
        r3:f32 = x[4*o0 + d0]
        y[5*d0 + r2] += r3
)",
     nullptr},
    {"a gather: a guarded load",
     [] {
       return gather(leaf("t", "5->2"), ids({2, 0, 7}));
     },
     R"(
kernel y
  for o0 < 3:
    for d0 < 2:
      r3:f32 := 0
      r0:i32 = ids[o0]
      r1:i64 = cast r0 to i64
      if r1 >= 0 and 4 - r1 >= 0:
        r2:f32 = t[5*d0 + r1]
        r3 += r2
      y[2*o0 + d0] = r3
)",
     nullptr},
    {"a written diagonal: injective, so stored; the rest is filled first",
     [] { return einsum("i=>ii", leaf("a", "3")); }, R"(
kernel y
  for e < 9:
    r0:f32 = 0
    y[e] = r0
  for i < 3:
    r1:f32 = a[i]
    y[4*i] = r1
)",
     nullptr},
    {"a condition on what is written: elements outside keep the neutral element",
     [] {
       return einmax("j => i", leaf("x", "4"), {{"i", "j"}, {"j <= i"}});
     },
     R"(
kernel y
  for i < 4:
    r1:f32 := -inf
    for j < 4:
      if i - j >= 0:
        r0:f32 = x[j]
        r1 max= r0
    y[i] = r1
)",
     nullptr},
    {"overlapping sums of a narrow float: totals in f32 beside it",
     [] {
       return einsum("o=>o+k", cast(leaf("x", "3"), DType::f16), {{"k", 2}});
     },
     R"(
kernel cast f16
  for o0 < 3:
    r0:f32 = x[o0]
    r1:f32 = cast r0 to f16
    cast f16[o0] = r1
kernel y
  for e < 4:
    r0:f32 = 0
    y.total[e] = r0
  for o < 3:
    for k < 2:
      r1:f32 = cast f16[o]
      y.total[o + k] += r1
  for e < 4:
    r2:f32 = y.total[e]
    y[e] = r2
)",
     R"(
kernel cast f16
  for o0 < 3:
    r0:f32 = x[o0]
    r1:f32 = cast r0 to f16
    cast f16[o0] = r1
kernel y
  for o_q < 4:
    r1:f32 := 0
    for k < 2:
      if k + o_q - 1 >= 0 and 3 - k - o_q >= 0:
        r0:f32 = cast f16[k + o_q - 1]
        r1 += r0
    y[o_q] = r1
)"},
    {"random bits are computed where they are read",
     [] { return cast(random_bits("s", {.output = {3}, .step = 0}), DType::f32); }, R"(
kernel y
  for o0 < 3:
    r0:i32 = 0
    r1:i64 = cast r0 to i64
    r2:i64 = random random s[o0] at step r1
    r3:f32 = cast r2 to f32
    y[o0] = r3
)",
     nullptr},
};

TEST(Lower, Dumps) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const ir::Program p = to_ir(observe(row.tensor().named("y")));
    const plan::Plan result = plan::make_plan(p, host(), {.off = {"simplify", "hoist", "vectorize"}});
    const loop::Module lowered = lower(p);
    loop::verify(lowered);
    if (row.loops) {
      EXPECT_EQ(loops(lowered), row.loops + 1);
    }
    EXPECT_EQ(loops(result.scheduled), (row.optimised ? row.optimised : row.loops) + 1);
  }
}

TEST(Lower, IndexTensorsAreReadInsideTheGuardsOfTheirOwnAccess) {
  using ir::Term;
  ir::Program p;
  p.buffers = {{"first", parse_shape("4"), DType::i32, ir::StateLeaf{}, {}},
               {"second", parse_shape("3"), DType::i64, ir::StateLeaf{}, {}},
               {"table", parse_shape("5"), DType::f32, ir::StateLeaf{}, {}},
               {"y", parse_shape("4"), DType::f32, ir::Computed{}, {}}};
  ir::Accumulation a;
  a.target = 3, a.accumulator = Accumulator::add, a.iterators = {"o", "k"}, a.extents = {4, 3},
  a.write = {Term::iterator(0)};
  const Term padded = Term::iterator(0) + Term::iterator(1) + Term::number(-1);
  a.where = {padded, Term::number(3) - padded, Term::load(1) - Term::iterator(0)};
  a.operands = {{2, {Term::load(1)}}, {1, {Term::load(2)}}, {0, {padded}}};
  a.body = ir::Body::identity();
  p.accumulations = {a}, p.observed = {3};
  ir::verify(p);
  const loop::Module module = lower(p);
  loop::verify(module);
  EXPECT_EQ(loops(module), R"(kernel y
  for o < 4:
    r4:f32 := 0
    for k < 3:
      if o + k - 1 >= 0 and 4 - o - k >= 0:
        r0:i32 = first[o + k - 1]
        r1:i64 = cast r0 to i64
        if r1 >= 0 and 2 - r1 >= 0:
          r2:i64 = second[r1]
          if r2 >= 0 and 4 - r2 >= 0 and r2 - o >= 0:
            r3:f32 = table[r2]
            r4 += r3
    y[o] = r4
)");
}

TEST(Lower, OnlyTheBoundsOfTheWriteGuardAStoreThatCovers) {
  using ir::Term;
  ir::Program p;
  p.buffers = {{"x", parse_shape("4"), DType::f32, ir::StateLeaf{}, {}},
               {"y", parse_shape("6"), DType::f32, ir::Computed{}, {}}};
  ir::Accumulation a;
  const Term to = Term::iterator(0, 2) + Term::iterator(1) + Term::number(-1);
  a.target = 1, a.accumulator = Accumulator::add, a.iterators = {"i", "j"}, a.extents = {4, 2}, a.write = {to};
  a.where = {to, Term::number(5) - to, to - Term::number(2)};
  a.operands = {{0, {Term::iterator(0)}}};
  a.body = ir::Body::identity();
  p.accumulations = {a}, p.observed = {1};
  ir::verify(p);
  EXPECT_EQ(loops(lower(p)), R"(kernel y
  for i < 4:
    for j < 2:
      if 2*i + j - 1 >= 0 and 6 - 2*i - j >= 0:
        r1:f32 := 0
        if 2*i + j - 3 >= 0:
          r0:f32 = x[i]
          r1 += r0
        y[2*i + j - 1] = r1
)");
  // Where the bound follows only from a condition on what is summed, the store still needs it.
  p.accumulations[0].extents = {5, 2}, p.accumulations[0].write = {Term::iterator(0)};
  p.buffers[1].shape = parse_shape("4"),
  p.accumulations[0].where = {Term::number(3) - Term::iterator(0) - Term::iterator(1)};
  ir::verify(p);
  EXPECT_EQ(loops(lower(p)), R"(kernel y
  for i < 5:
    if 3 - i >= 0:
      r1:f32 := 0
      for j < 2:
        if 3 - i - j >= 0:
          r0:f32 = x[i]
          r1 += r0
      y[i] = r1
)");
}

// ---------------------------------------------------------------- write maps

TEST(WriteForm, SaysWhichLoopsMayBeParallel) {
  using ir::Term;
  const Term i = Term::iterator(0), j = Term::iterator(1), at = Term::symbol(0);
  auto n = [](int64_t value) { return Term::number(value); };
  struct FormRow {
    const char* name;
    std::vector<Term> write;
    std::vector<int64_t> sizes;
    bool injective, covers;
  };
  const FormRow rows[] = {
      {"every element", {i, j}, {4, 3}, true, true},
      {"transposed", {j, i}, {3, 4}, true, true},
      {"a sum over j", {i}, {4}, true, true},
      {"a sum over all", {}, {}, true, true},
      {"a kept axis", {i, n(0)}, {4, 1}, true, true},
      {"a fixed index", {i, n(1)}, {4, 2}, true, false},
      {"a shift", {i + n(1)}, {5}, true, false},
      {"every second", {i * 2}, {8}, true, false},
      {"backwards", {n(3) - i}, {4}, true, true},
      {"a slice", {at, i}, {7, 4}, true, false},
      {"a slice that moves", {i + at}, {9}, true, false},
      {"a diagonal", {i, i}, {4, 4}, true, false},
      {"a diagonal beside another axis", {i, i + j, j}, {4, 6, 3}, true, false},
      {"a window: o + k", {i + j}, {6}, false, false},
      {"a strided window: 2*o + k", {i * 2 + j}, {9}, false, false},
      {"a window that overlaps nowhere", {i * 3 + j}, {12}, true, true},
      {"one that overlaps nowhere and leaves a rest", {i * 3 + j}, {13}, true, false},
      {"one that overlaps nowhere and leaves gaps", {i * 4 + j}, {16}, true, false},
      {"one that goes beyond both ends", {i * 3 + j - n(2)}, {8}, true, true},
      {"residues out of order", {i * 3 + j * 2 - n(2)}, {8}, true, true},
      {"residues backwards, from the other end", {n(11) - i * 3 - j}, {12}, true, true},
      {"common factors: 2*o + 4*k", {i * 2 + j * 4}, {15}, false, false},
      {"a window that overlaps nowhere, moved by a symbol", {i * 3 + j + at}, {14}, true, false},
      {"a merged axis beside one of its iterators", {i * 3 + j, j}, {12, 3}, true, false},
      {"an index tensor", {Term::load(0)}, {5}, false, false},
      {"an index tensor beside an axis", {Term::load(0), j}, {5, 3}, false, false},
  };
  for (const FormRow& row : rows) {
    ir::Program p;
    p.symbols = {{"at", 3}};
    Shape shape;
    for (int64_t size : row.sizes) shape.output.push_back({size});
    p.buffers = {{"y", shape, DType::f32, ir::Computed{}, {}},
                 {"ids", parse_shape("4"), DType::i32, ir::StateLeaf{}, {}}};
    ir::Accumulation a;
    a.target = 0, a.iterators = {"i", "j"}, a.extents = {4, 3}, a.write = row.write, a.operands = {{1, {i}}},
    a.body = ir::Body::number(1);
    const WriteForm form = write_form(p, a);
    EXPECT_EQ(form.injective, row.injective) << row.name;
    EXPECT_EQ(form.covers, row.covers) << row.name;
    for (size_t k = 0; k < 2; ++k) {
      bool mentioned = false;
      for (const Term& t : row.write)
        for (const Term::Part& part : t.parts)
          mentioned = mentioned || (part.kind == Term::Part::Kind::iterator && size_t(part.which) == k);
      EXPECT_EQ(form.outer[k], mentioned) << row.name;
    }
  }
}

// Against counting: injective is exact for two iterators, covers is sound and sees every window that is stored in
// order.
TEST(WriteForm, AgreesWithCounting) {
  std::mt19937 random(1);
  auto pick = [&](int low, int high) { return low + int(random() % uint32_t(high - low + 1)); };
  int covered = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int64_t a = pick(1, 5) * (pick(0, 1) ? 1 : -1), b = pick(1, 5) * (pick(0, 1) ? 1 : -1), c = pick(-6, 12),
                  size = pick(1, 12);
    const std::vector<int64_t> extents = {pick(1, 6), pick(1, 6)};
    ir::Program p;
    p.buffers = {{"y", parse_shape(std::to_string(size)), DType::f32, ir::Computed{}, {}}};
    ir::Accumulation accumulation;
    accumulation.target = 0, accumulation.iterators = {"i", "j"}, accumulation.extents = extents;
    accumulation.write = {ir::Term::iterator(0, a) + ir::Term::iterator(1, b) + ir::Term::number(c)};
    std::map<int64_t, int> count;
    for (int64_t i = 0; i < extents[0]; ++i)
      for (int64_t j = 0; j < extents[1]; ++j) ++count[a * i + b * j + c];
    bool once = true, all = true;
    for (auto [value, times] : count) once = once && times == 1;
    for (int64_t v = 0; v < size; ++v) all = all && count.count(v);
    const WriteForm form = write_form(p, accumulation);
    ASSERT_EQ(form.injective, once) << a << "*i + " << b << "*j + " << c << " for i < " << extents[0] << ", j < "
                                    << extents[1];
    ASSERT_TRUE(!form.covers || (once && all))
        << a << "*i + " << b << "*j + " << c << " for i < " << extents[0] << ", j < " << extents[1] << " in " << size;
    const bool in_order = extents[1] == std::abs(a) && std::abs(b) == 1;
    ASSERT_TRUE(!once || !all || !in_order || form.covers) << a << "*i + " << b << "*j + " << c << " in " << size;
    covered += form.covers;
  }
  EXPECT_GT(covered, 200);
}

// ---------------------------------------------------------------- the verifier of loops

using namespace loop;

// Buffers a (f32 state), n (i32 computed), h (f16 computed), d (data), s (random); one loop variable, registers f32,
// f32, i64, i32.
Module module_with(Block body) {
  Module m;
  m.symbols = {{"at", 3}};
  m.buffers = {{"a", parse_shape("4"), DType::f32, ir::StateLeaf{}, {}},
               {"n", parse_shape("4"), DType::i32, ir::Computed{}, {}},
               {"h", parse_shape("4"), DType::f16, ir::Computed{}, {}},
               {"d", parse_shape("4"), DType::f32, ir::DataLeaf{Array(parse_shape("4"))}, {}},
               {"s", parse_shape("4"), DType::f32, ir::RandomLeaf{"s", 0, 32, 0}, {}}};
  Kernel kernel;
  kernel.name = "k", kernel.variables = {"i", "j"}, kernel.registers = {DType::f32, DType::f32, DType::i64, DType::i32},
  kernel.body = std::move(body);
  m.kernels = {kernel};
  return m;
}
Statement loop_of(Block body, Variable variable = 0, int64_t extent = 4) {
  return For{variable, extent, LoopKind::serial, std::move(body)};
}
Statement define(Register to, Value value) { return Define{to, std::move(value)}; }

TEST(LoopVerifier, AcceptsWhatLoweringMakes) {
  const Term i = Term::iterator(0);
  verify(module_with({loop_of({define(0, Load{0, i}), Reset{1, 0}, Combine{1, Accumulator::add, 0}, Store{0, i, 1}})}));
}
TEST(LoopVerifier, MustRefuse) {
  const Term i = Term::iterator(0), zero = Term::number(0);
  struct Refusal {
    const char* phrase;
    Block body;
  };
  const Refusal rows[] = {
      {"register r0 is read before it is defined", {Store{0, zero, 0}}},
      {"register r0 is read outside its block", {loop_of({define(0, Load{0, i})}), Store{0, zero, 0}}},
      {"register r0 has two definitions", {define(0, Constant{1}), define(0, Constant{2})}},
      {"register r9 has no precision", {define(9, Constant{1})}},
      {"register r1 is accumulated without a reset",
       {define(0, Constant{1}), define(1, Constant{1}), Combine{1, Accumulator::add, 0}}},
      {"register r1 is accumulated without a reset",
       {define(0, Constant{1}), Reset{2, -1}, CombineFirst{1, 2, Accumulator::argmax, 0, zero}}},
      {"register r1 keeps a position but is f32",
       {define(0, Constant{1}), Reset{1, -1}, Reset{2, -1}, CombineFirst{2, 1, Accumulator::argmax, 0, zero}}},
      {"register r2 is compared with another precision",
       {define(0, Constant{1}), Reset{2, 0}, Reset{3, -1}, CombineFirst{2, 3, Accumulator::argmax, 0, zero}}},
      {"register r2 is loaded from `a` of another precision", {define(2, Load{0, zero})}},
      {"register r3 is an index but not i64", {define(3, Load{1, zero}), define(0, Load{0, Term::load(3)})}},
      {"register r0 is cast to another precision", {define(1, Constant{1}), define(0, Cast{1, DType::i64})}},
      {"register r0 is computed in a narrow float",
       {define(1, Constant{1}), define(0, Apply{Op::neg, DType::f16, {1, -1, -1}})}},
      {"register r5 is read before it is defined", {define(0, Apply{Op::neg, DType::f32, {5, -1, -1}})}},
      {"`h` is a narrow float, accumulated in memory",
       {define(0, Constant{1}), StoreCombine{2, zero, Accumulator::add, 0}}},
      {"loop variable i is used outside its loop", {define(0, Load{0, i})}},
      {"loop variable i is used outside its loop", {If{{i}, {}}}},
      {"loop variable i is used twice", {loop_of({loop_of({})})}},
      {"loop variable 7 does not exist", {loop_of({}, 7)}},
      {"loop variable i has the extent -1", {loop_of({}, 0, -1)}},
      {"the parallel loop over i has more than definitions beside it",
       {For{0, 4, LoopKind::parallel, {}, 1}, define(0, Constant{1})}},
      {"the parallel loop over i has more than definitions beside it",
       {Reset{0, 0}, For{0, 4, LoopKind::parallel, {}, 1}}},
      {"the parallel loop over i has more than definitions beside it, or no chunk",
       {For{0, 4, LoopKind::parallel, {}}}},
      {"the parallel loop over i may touch in one iteration what another writes",
       {define(0, Load{0, zero}), For{0, 4, LoopKind::parallel, {Store{0, i, 0}}, 1}}},
      {"the parallel loop over i may touch in one iteration what another writes",
       {For{0, 4, LoopKind::parallel, {define(0, Constant{1}), Store{0, zero, 0}}, 1}}},
      {"the parallel loop over i may touch in one iteration what another writes",
       {For{0, 3, LoopKind::parallel, {define(0, Load{0, i + Term::number(1)}), Store{0, i, 0}}, 1}}},
      {"buffer 9 does not exist", {define(0, Load{9, zero})}},
      {"buffer -1 does not exist", {define(0, Constant{1}), Store{-1, zero, 0}}},
      {"symbol 4 does not exist", {define(0, Load{0, Term::symbol(4)})}},
      {"`s` is loaded but is not in memory", {define(0, Load{4, zero})}},
      {"`d` is stored but is data", {define(0, Constant{1}), Store{3, zero, 0}}},
      {"`a` is drawn but is not random", {define(2, Constant{1}), define(0, RandomValue{0, zero, 2})}},
  };
  for (const Refusal& row : rows) {
    try {
      verify(module_with(row.body));
      ADD_FAILURE() << "not refused: " << row.phrase;
    } catch (const InternalError& e) {
      EXPECT_NE(std::string(e.what()).find(row.phrase), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("kernel k"), std::string::npos) << "the kernel is printed: " << e.what();
      const Module module = module_with(row.body);
      EXPECT_TRUE(problem(module, module.kernels[0]).value().starts_with(row.phrase)) << row.phrase;
    }
  }
}

// ---------------------------------------------------------------- C

TEST(C, TheMoonsStep) {
  auto moons = data::half_moons({.points = 800, .noise = 0.1, .seed = 1});
  Index batch("batch", 80), step("step");
  Tensor x = moons.points.batches(10)[batch], y = moons.labels.batches(10)[batch];
  Tensor w1 = param("w1"), b1 = param("b1", {.output = {16}, .init = zeros()}), w2 = param("w2"),
         b2 = param("b2", {.output = {16}, .init = zeros()}), w3 = param("w3");
  auto mlp = [&](Tensor in) { return w3(relu(w2(relu(w1(in) + b1)) + b2)); };
  Tensor loss = sum(relu(1 - y * mlp(x))) / 10, lr = 0.1 * (2 - step / 6400.0);
  const loop::Module module =
      plan::make_plan(to_ir(train_step(loss, sgd({.lr = lr, .weight_decay = 1e-4}))), host()).scheduled;
  const std::string text = codegen::to_c(module);
  auto has = [&](const std::string& phrase) { return text.find(phrase) != text.npos; };

  EXPECT_FALSE(std::ranges::any_of(module.kernels, loop::library_call)) << "every update is made in place";
  EXPECT_FALSE(has("memcpy(step->"));
  for (const char* name : {"d_w1", "d_w2", "d_w3", "d_b1", "d_b2"})
    EXPECT_FALSE(has(std::string(name) + "[")) << "a gradient array: " << name;
  for (const char* name : {"w1", "w2", "w3", "b1", "b2"})
    EXPECT_TRUE(has("float* restrict " + std::string(name))) << name << " is written by the kernel of its gradient";
  EXPECT_FALSE(has("restrict d_relu")) << "a gradient array that is only the way to the next";
  EXPECT_TRUE(has("20*batch")) << "the batch is read where it lies";
  EXPECT_FALSE(has("slice_batch")) << "it has no buffer of its own";
  // Each weight is stored once, in the loop that sums its gradient.
  for (const char* name : {"w1", "w2", "w3"}) {
    const std::string update = std::string("    ") + name + "[";
    size_t stores = 0;
    for (size_t at = text.find(update); at != text.npos; at = text.find(update, at + 1)) ++stores;
    EXPECT_EQ(stores, 1u) << name;
  }
}
TEST(C, ALoadIsNotMovedBehindAStore) {
  // y = exp(w) and z = y + new w in one kernel with w := new w: exp(w) is used after the store to w.
  Tensor w = leaf("w", "3"), y = exp(w), next = sin(w) * y;
  const std::string text =
      codegen::to_c(plan::make_plan(to_ir(assign(w, next) & observe((y + next).named("z"))), host()).scheduled);
  const size_t load = text.find("= w[o0];"), store = text.find(" w[o0] = ");
  ASSERT_NE(store, std::string::npos) << text;
  EXPECT_LT(load, store) << text;
  EXPECT_EQ(text.find("w[o0]", store + 9), std::string::npos) << "w is not read again\n" << text;
}
TEST(C, WhatIsUsedInAnInnerLoopIsComputedOutsideIt) {
  Tensor a = leaf("a", "3"), e = exp(a).named("e");
  const std::string text =
      codegen::to_c(plan::make_plan(to_ir(observe(einsum("i;j=>i", e, leaf("b", "4")).named("y"))), host()).scheduled);
  const size_t inner = text.find("for (int64_t j"), function = text.find("caravan_exp_f32(a[");
  ASSERT_NE(function, std::string::npos) << text;
  EXPECT_LT(function, inner) << text;
}
TEST(C, NumbersKeepTheirBits) {
  auto text = [](const Tensor& t) { return codegen::to_c(plan::make_plan(to_ir(observe(t)), host()).scheduled); };
  const Tensor x = leaf("x", "2"), wide = param("wide", Array::vector({1, 2}, DType::f64));
  // 1 + 2^-24 lies halfway between two floats: rounded to even from double, and not from its shortest decimal.
  EXPECT_NE(text(x * (1 + 0x1p-24)).find(" * 1.0f;"), std::string::npos);
  EXPECT_NE(text(x * 0.1).find(" * 0.1f;"), std::string::npos);
  EXPECT_NE(text(wide * 0.1).find(" * 0.1;"), std::string::npos);
  EXPECT_NE(text(einmax("i=>", tensor(Array::vector({1, 2}, DType::i64)))).find("int64_t max = INT64_MIN;"),
            std::string::npos);
  EXPECT_NE(text(einmin("i=>", tensor(Array::vector({1, 2}, DType::i32)))).find("int32_t min = 2147483647;"),
            std::string::npos);
}

}  // namespace
}  // namespace caravan::lower
