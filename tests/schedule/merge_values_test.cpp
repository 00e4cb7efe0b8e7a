// What is computed twice is computed once.
#include "caravan/schedule/merge_values.h"

#include <gtest/gtest.h>

#include "caravan/ops/table.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "caravan/schedule/hoist.h"
#include "pass_table.h"
#include "schedule/by_hand.h"

namespace caravan::schedule {
namespace {

TEST(MergeValues, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"what two fused kernels both read and compute",
       [] {
         Tensor a = parameter("a", "3");
         return observe({sin(exp(a).named("e")).named("x"), cos(exp(a).named("f")).named("y")});
       },
       {fuse, forward_stores},
       R"(
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
         Tensor a = parameter("a", "3");
         return observe(
             {exp(a).named("e"), einsum("i; i, j => i", exp(a).named("f"), parameter("b", "3,4")).named("y")});
       },
       {fuse, forward_stores, hoist},
       R"(
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
  };
  expect_rewritten(merge_values, rows);
}

TEST(MergeValues, MustRefuse) {
  const std::vector<LoopRefusal> rows = {
      {"values of loops beside each other",
       [] {
         Tensor a = parameter("a", "3,4");
         return observe({einsum("ij=>i", a), einmax("ij=>i", a)});
       },
       {fuse}},
      {"operands in another place",
       [] {
         Tensor a = parameter("a", "3"), b = parameter("b", "3");
         return observe(sin((a - b).named("x")) * (b - a));
       },
       {}},
  };
  expect_refused(merge_values, rows);
  const loop::Define zero{1, loop::Constant{0.0}}, minus_zero{2, loop::Constant{-0.0}};
  const std::vector<HandRow> hand_rows = {
      {"0 and -0", by_hand({kF, kF, kF, kF}, {zero, minus_zero, sum_of(3, 1, 2), loop::Store{2, kFirst, 3}})},
      {"another precision", by_hand({kF, kF, DType::f64, kF}, {zero, loop::Define{2, loop::Constant{0.0}},
                                                               sum_of(3, 1, 2), loop::Store{2, kFirst, 3}})},
      {"a load past a store to its buffer",
       by_hand({kF, kF, kF}, {element(0, 2, kFirst), loop::Store{2, kFirst, 0}, element(1, 2, kFirst), sum_of(2, 0, 1),
                              loop::Store{2, kFirst, 2}})},
      {"a load in a loop that stores to its buffer later",
       by_hand({kF, kF, kF}, {element(0, 2, kFirst),
                              looped(0, {element(1, 2, kFirst), sum_of(2, 0, 1), loop::Store{2, kFirst, 2}})})},
      {"a load behind a guard under which it is stored",
       by_hand({kF, kF, kF}, {looped(0, {element(0, 2, kFirst), loop::If{{kI}, {loop::Store{2, kI, 0}}},
                                         element(1, 2, kFirst), sum_of(2, 0, 1), loop::Store{2, kI, 2}})})},
      {"a value under a guard that was left",
       by_hand({kF, kF}, {looped(0, {loop::If{{kI}, {element(0, 0, kI), loop::Store{2, kI, 0}}}, element(1, 0, kI),
                                     loop::Store{2, kI, 1}})})},
      {"a value of a total that grew",
       by_hand({kF, kF, kF, kF}, {loop::Reset{0, 0}, sum_of(1, 0, 0), loop::Combine{0, Accumulator::add, 1},
                                  sum_of(2, 0, 0), sum_of(3, 1, 2), loop::Store{2, kFirst, 3}})},
  };
  expect_refused_by_hand(merge_values, hand_rows);
}

}  // namespace
}  // namespace caravan::schedule
