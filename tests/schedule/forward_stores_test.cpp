// What was stored is not loaded again.
#include "caravan/schedule/forward_stores.h"

#include <gtest/gtest.h>

#include "caravan/ops/table.h"
#include "caravan/schedule/fuse.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

TEST(ForwardStores, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"a stored register is not loaded again, and then nobody reads the buffer",
       [] { return observe(relu(einsum("ij=>i", parameter("a", "3,4"))).named("y")); },
       {fuse},
       R"(
kernel einsum
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
         Tensor e = exp(parameter("a", "3")).named("e");
         return observe({e, sin(e).named("y")});
       },
       {fuse},
       R"(
kernel y
  for o0 < 3:
    r0:f32 = a[o0]
    r1:f32 = exp(r0)
    e[o0] = r1
    r3:f32 = sin(r1)
    y[o0] = r3
)"},
      {"a register that storing rounds is rounded",
       [] {
         Tensor h = state("h", {.output = {3}, .init = zeros(), .dtype = DType::f16});
         return observe(sin((h * h).named("p")).named("y"));
       },
       {fuse},
       R"(
kernel y
  for o0 < 3:
    r0:f32 = h[o0]
    r1:f32 = h[o0]
    r2:f32 = mul(r0, r1)
    r3:f32 = cast r2 to f16
    r4:f32 = sin(r3)
    y[o0] = r4
)"},
      {"a register that is rounded already",
       [] { return observe(cast(cast(parameter("a", "3"), DType::f16), DType::f32).named("y")); },
       {fuse},
       R"(
kernel y
  for o0 < 3:
    r0:f32 = a[o0]
    r1:f32 = cast r0 to f16
    r3:f32 = cast r1 to f32
    y[o0] = r3
)"},
      {"an argmax that is read keeps its best value",
       [] { return observe((argmax("ij=>i", parameter("a", "3,4")) + 1).named("y")); },
       {fuse},
       R"(
kernel argmax
  for i < 3:
    r1:f32 := 0
    r2:i32 := -1
    for j < 4:
      r0:f32 = a[4*i + j]
      r1, r2 argmax= r0 at j
    r3:i64 = cast r2 to i64
    r5:f64 = 1
    r6:i64 = add(r3, r5)
    y[i] = r6
)"},
  };
  expect_rewritten(forward_stores, rows);
}

TEST(ForwardStores, MustRefuse) {
  const std::vector<LoopRefusal> hand_rows = {
      {"out of the loop in which it was stored", [] { return observe(sum(exp(parameter("a", "3")))); }, {}},
  };
  expect_refused(forward_stores, hand_rows);
}

TEST(ForwardStores,
     MustNotForwardWhatHasChanged) {  // kernels as no pass makes them today: y is written, then z from it
  using namespace loop;
  ir::Program program;
  auto buffer = [&](const char* name, DType dtype) {
    program.buffers.push_back({name, parse_shape("4"), dtype, ir::Computed{}, {}});
    program.observed.push_back(ir::BufferId(program.buffers.size()) - 1);
    return program.observed.back();
  };
  const ir::BufferId a = buffer("a", DType::f32), y = buffer("y", DType::f32), z = buffer("z", DType::f32),
                     at = buffer("at", DType::i64);
  const Term zero = Term::number(0), i = Term::iterator(0);
  // r0 = a[0], r1 = a[1]; y[0] = r0 at first, r2 = y[0] and z[..] = r2 at last. r3 is an accumulator.
  const Statement first = Define{0, Load{a, zero}}, other = Define{1, Load{a, Term::number(1)}},
                  put = Store{y, zero, 0}, get = Define{2, Load{y, zero}}, keep = Store{z, zero, 2};
  auto loop = [](Block body) { return For{0, 4, LoopKind::serial, std::move(body)}; };
  struct Row {
    const char* reason;
    Block body;
  };
  const std::vector<Row> rows = {
      {"a store to another element, which may be the same",
       {first, other, loop({put, Store{y, i, 1}, get, Store{z, i, 2}})}},
      {"a store to the same element",
       {first, other, put, Store{y, zero, 1}, Define{3, Load{y, Term::number(2)}}, Store{z, zero, 3}}},
      {"a store in a loop between", {first, other, put, loop({Store{y, i, 1}}), get, keep}},
      {"a store later in the loop, seen by the next iteration",
       {first, other, put, loop({get, Store{z, i, 2}, Store{y, zero, 1}})}},
      {"a store under a condition between",
       {first, other, loop({put, If{{i}, {Store{y, zero, 1}}}, get, Store{z, i, 2}})}},
      {"a store under a condition, read outside",
       {first, loop({If{{Term::number(2) - i}, {put}}, get, Store{z, i, 2}})}},
      {"an addition in memory", {first, other, put, StoreCombine{y, zero, Accumulator::add, 1}, get, keep}},
      {"a winner in memory", {first, other, put, StoreFirst{at, y, zero, Accumulator::argmax, 1, zero}, get, keep}},
      {"a total that goes on after it was stored",
       {first, Reset{3, 0}, Store{y, zero, 3}, Combine{3, Accumulator::add, 0}, get, keep}},
      {"a total that a loop goes on with",
       {first, Reset{3, 0}, Store{y, zero, 3}, loop({Combine{3, Accumulator::add, 0}}), get, keep}},
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
  module.kernels.push_back(
      {"k", {}, {"i"}, {DType::f32, DType::f32, DType::f32, DType::f32}, Block{first, put, get, keep}});
  EXPECT_NE(to_string(forward_stores(module)), to_string(module));
}

}  // namespace
}  // namespace caravan::schedule
