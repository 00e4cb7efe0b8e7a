// From accumulations to loops: dumps of the typical shapes.
#include "caravan/lower/lower.h"

#include <gtest/gtest.h>

#include <functional>

#include "caravan/plan/plan.h"
#include "programs.h"

namespace caravan::lower {
namespace {

Tensor leaf(const std::string& name, const std::string& shape) { return param(name, Array(parse_shape(shape))); }
Tensor ids(const std::vector<double>& values) { return tensor(Array::vector(values, DType::i32), "ids"); }
std::string loops(const loop::Module& module) { return joined(lines_of(loop::to_string(module))); }

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
kernel apply w
  for b0 < 2:
    for o0 < 3:
      r3:f32 := 0
      for k0 < 4:
        r0:f32 = w[4*o0 + k0]
        r1:f32 = x[4*b0 + k0]
        r2:f32 = mul(r0, r1)
        r3 += r2
      apply w[3*b0 + o0] = r3
kernel add
  for b0 < 2:
    for o0 < 3:
      r0:f32 = apply w[3*b0 + o0]
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
kernel apply w
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

}  // namespace
}  // namespace caravan::lower
