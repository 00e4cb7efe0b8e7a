// Every pass as two tables: what it makes of a program, and what it must leave alone and why. And the pipeline: its
// order, its log, what it costs.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <set>

#include "caravan/backend/cc/device.h"
#include "caravan/base/error.h"
#include "caravan/codegen/c.h"
#include "caravan/lower/lower.h"
#include "caravan/passes/copy_leaves.h"
#include "caravan/passes/delay_updates.h"
#include "caravan/passes/forward_stores.h"
#include "caravan/passes/fuse.h"
#include "caravan/passes/inline_producers.h"
#include "caravan/passes/merge_equal.h"
#include "caravan/passes/parallelize.h"
#include "caravan/passes/pipeline.h"
#include "caravan/passes/remove_unused.h"
#include "caravan/passes/update_in_place.h"
#include "programs.h"
#include "sanitized.h"

namespace caravan::passes {
namespace {

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
      {"a padded reader: the reader's condition keeps the load in range", [] { return observe(einsum("o<1+k; k => o", (leaf("x", "4") + 1).named("p"), leaf("w", "3")).named("y")); }, R"(
p[o0] += x[o0] + 1   for o0 < 4
y[o] += p[o + k - 1] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
)",
       R"(
p[o0] += x[o0] + 1   for o0 < 4
y[o] += p[o + k - 1] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
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
      {"a reduction, which its reader would repeat", [] { return observe(leaf("b", "3,2") * einsum("i,j=>i,0", leaf("a", "3,4"))); }},
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
         Tensor bits = cast(random_bits("s", {.output = {3}}), DType::f32);
         return observe({sum(bits), largest(bits)});
       }},
      {"a map that the verifier could not prove: the condition speaks of o + k - 1, the load of twice that",
       [] { return observe(einsum("o<1+k; k => o", einsum("2*n => n", leaf("x", "8")), leaf("w", "3"))); }},
  });
}
TEST(InlineProducers, BodiesStayBounded) {
  Tensor x = leaf("x", "4");
  for (int k = 0; k < 300; ++k) x = x * 1.5 + k;
  const ir::Program after = inline_producers(to_ir(observe(x)));
  EXPECT_GT(after.accumulations.size(), 2u);
  for (const ir::Accumulation& a : after.accumulations) EXPECT_LE(a.body.entries().size(), kLongestBody);
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
  });
}
TEST(Fuse, MustRefuse) {
  expect_refused(fuse, {
      {"rows that do not line up: the reader wants the transposition", [] { return observe(einsum("ij=>ji", exp(leaf("a", "3,3")))); }, {}},
      {"rows that do not line up: the reader is shifted", [] { return observe(einsum("1*o+1 => o", exp(leaf("a", "4")))); }, {}},
      {"rows that do not line up: the reader runs backwards", [] { return observe(einsum("-i=>i", exp(leaf("a", "4")))); }, {}},
      {"rows that overlap: a padded window over as many rows", [] { return observe(einsum("o<1+k; k => o", exp(leaf("a", "4")), leaf("w", "3"))); }, {}},
      {"unmatched factors: the reader takes every second", [] { return observe(einsum("2*n+k => n", exp(leaf("a", "8")), {{"k", 2}})); }, {}},
      {"the same extents over other rows: i&j of 2, 3 against 3, 2", [] { return observe(einsum("i&j => i, j", einsum("i, j => i&j", exp(leaf("a", "2,3"))), {{"i", 3}})); }, {}},
      {"a sum that must be complete", [] { return observe(leaf("b", "4") * sum(leaf("a", "4"))); }, {}},
      {"offsets through an index tensor", [] { return observe(gather(einsum("v,d=>v->d", exp(leaf("t", "3,2"))), tensor(Array::vector({2, 0, 1}, DType::i32)))); }, {}},
  });
}
TEST(Fuse, MustNotMoveANewValueBeforeAReaderOfTheOldOne) {  // or it could not be stored in place
  Tensor w = leaf("w", "3"), g = exp(leaf("a", "3")).named("g");
  const Program p = observe({g, einsum("-i=>i", w).named("old")}) & assign(w, (w - g).named("new"));
  const loop::Module after = fuse(lower::lower(in_order(p, {"g", "old", "new"})));
  EXPECT_EQ(after.kernels.size(), 3u);
  EXPECT_TRUE(update_in_place(after).program.assignments.empty());
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
  // Of a swap one half can be in place, after the other was copied.
  Tensor a = leaf("a", "3"), b = leaf("b", "3");
  EXPECT_EQ(update_in_place(lowered(assign(a, b) & assign(b, a))).program.assignments.size(), 1u);
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
  const std::vector<std::string> all = names();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  for (const char* name : {"merge_equal", "inline_producers", "delay_updates", "fuse", "forward_stores", "update_in_place", "parallelize"})
    EXPECT_NE(std::find(all.begin(), all.end(), name), all.end()) << name;
  try {
    run(to_ir(observe(leaf("a", "2") + 1)), {.off = {"unroll"}});
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("there is no pass `unroll`; the passes are merge_equal, inline_producers"), std::string::npos) << e.what();
  }
}
TEST(Pipeline, LogsEveryPassAndWhetherItChangedAnything) {
  std::map<std::string, bool> changed;
  for (const LogEntry& entry : run(to_ir(observe(exp(leaf("a", "2") + 1)))).log) changed[entry.pass] = changed[entry.pass] || entry.changed;
  std::map<std::string, bool> expected = {{"copy_leaves", false}, {"remove_unused", false}, {"split_sums", false}, {"lower", true}, {"split_loops", false}};
  for (const std::string& name : names()) expected[name] = name == "inline_producers";
  EXPECT_EQ(changed, expected);
  for (const LogEntry& entry : run(to_ir(observe(leaf("a", "2") + 1)), {.off = names()}).log) EXPECT_EQ(entry.changed, entry.pass == "lower") << entry.pass;
}
TEST(Pipeline, EveryPassCanBeLeftOutAlone) {
  Tensor w = leaf("w", "3->2"), x = leaf("x", "4|3");
  const ir::Program p = to_ir(train_step(sum(square(relu(w(x)))), sgd({.lr = 0.1, .momentum = 0.9})));
  for (const std::string& name : names()) {
    const Result result = run(p, {.off = {name}});
    loop::verify(result.module);
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
void plan(const ir::Program& p) {
  const Result result = run(p);
  EXPECT_GT(cc::plan_memory(result.module).bytes, 0);
  EXPECT_GT(codegen::to_c(result.module).size(), 1000u);
  EXPECT_TRUE(result.module.program.assignments.empty()) << "every weight is updated in place";
}
TEST(Pipeline, TenThousandAccumulationsArePlannedInTwoSeconds) {
  const ir::Program p = network(1200);
  ASSERT_GE(p.accumulations.size(), 10'000u);
  const double taken = seconds([&] { plan(p); });
  RecordProperty("seconds", std::to_string(taken));
  if (kSanitized) GTEST_SKIP() << "sanitized builds are several times slower; it took " << taken << " s";
  EXPECT_LT(taken, 2);
}
TEST(Pipeline, CostGrowsWithTheSizeOfTheProgram) {
  const ir::Program small = network(300), large = network(1200);
  double least_small = 1e9, least_large = 1e9;
  for (int round = 0; round < 3; ++round) {
    least_small = std::min(least_small, seconds([&] { plan(small); }));
    least_large = std::min(least_large, seconds([&] { plan(large); }));
  }
  EXPECT_LT(least_large / least_small, 7) << least_large << " s after " << least_small << " s";
}

TEST(MemoryPlan, BuffersThatAreNeededTogetherDoNotOverlap) {
  Tensor x = leaf("x", "7"), w = leaf("w", "7->7");
  Tensor h = x;
  for (int k = 0; k < 6; ++k) h = sin(w(h));
  const loop::Module module = run(to_ir(train_step(sum(h), sgd({.lr = 0.1}))), {.off = {"fuse"}}).module;
  const cc::MemoryPlan plan = cc::plan_memory(module);
  int64_t total = 0;
  for (const cc::Placement& a : plan.placements) {
    total += a.bytes;
    EXPECT_EQ(a.offset % 64, 0);
    EXPECT_LE(a.offset + a.bytes, plan.bytes);
    for (const cc::Placement& b : plan.placements) {
      if (&a == &b || a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
          << module.program.buffers[size_t(a.buffer)].name << " and " << module.program.buffers[size_t(b.buffer)].name;
    }
  }
  EXPECT_GT(plan.placements.size(), 10u);
  EXPECT_LT(plan.bytes, int64_t(plan.placements.size()) * 64 * 4) << "places are used again";
  EXPECT_GT(total, 0);
}

}  // namespace
}  // namespace caravan::passes
