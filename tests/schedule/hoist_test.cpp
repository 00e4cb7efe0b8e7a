// What does not change in a loop leaves it.
#include "caravan/schedule/hoist.h"

#include <gtest/gtest.h>

#include "caravan/ops/table.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "pass_table.h"
#include "schedule/by_hand.h"

namespace caravan::schedule {
namespace {

TEST(Hoist, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"a factor of the row leaves the loop over it",
       [] {
         return observe(einsum("i; i, j => i", exp(parameter("a", "3")).named("e"), parameter("b", "3,4")).named("y"));
       },
       {fuse, forward_stores},
       R"(
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
      {"what is the same everywhere leaves all loops, with the number it is computed from",
       [] { return observe((parameter("b", "3,4") * (parameter("a", "") * 2)).named("y")); },
       {},
       R"(
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
         Tensor a = parameter("a", "3,4");
         return observe(einsum("i,j; i => i,j", a, exp(einsum("i,j => i", a))).named("y"));
       },
       {fuse, forward_stores},
       R"(
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
  };
  expect_rewritten(hoist, rows);
}

TEST(Hoist, MustRefuse) {
  const std::vector<LoopRefusal> rows = {
      {"values that name the loop's variable", [] { return observe(exp(parameter("a", "3"))); }, {}},
      {"a load under a guard",
       [] { return observe(einsum("i; j => i", parameter("a", "3"), parameter("b", "3"), {{"j <= i"}})); },
       {}},
      {"what the loop accumulates",
       [] { return observe(einsum("ij=>i", exp(parameter("a", "3,4")))); },
       {fuse, forward_stores}},
  };
  expect_refused(hoist, rows);
  const std::vector<HandRow> hand_rows = {
      {"a load of what the loop stores",
       by_hand({kF, kF}, {looped(0, {element(0, 0, kI), element(1, 2, kFirst), loop::Store{2, kI, 0}})})},
      {"a load of what a loop inside stores",
       by_hand({kF, kF}, {looped(0, {element(1, 2, kFirst), looped(1, {element(0, 0, kJ), loop::Store{2, kJ, 0}})})})},
      {"a load out of a loop that does not run",
       by_hand({kF}, {looped(0, {element(0, 0, kFirst), loop::Store{2, kI, 0}}, 0)})},
      {"a value of a total that grows in the loop",
       by_hand({kF, kF, kF}, {loop::Reset{0, 0}, looped(0, {element(1, 0, kI), loop::Combine{0, Accumulator::add, 1},
                                                            sum_of(2, 0, 0), loop::Store{2, kI, 2}})})},
  };
  expect_refused_by_hand(hoist, hand_rows);
}

}  // namespace
}  // namespace caravan::schedule
