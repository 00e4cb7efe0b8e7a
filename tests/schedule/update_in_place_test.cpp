// States are updated where they lie, where nobody can see it.
#include "caravan/schedule/update_in_place.h"

#include <gtest/gtest.h>

#include "caravan/lower/lower.h"
#include "caravan/optimize/copy_leaves.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

TEST(UpdateInPlace, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"an element is read before it is stored",
       [] {
         Tensor w = parameter("w", "3");
         return assign(w, w * 0.5);
       },
       {},
       R"(
kernel mul
  for o0 < 3:
    r0:f32 = w[o0]
    r1:f64 = 0.5
    r2:f32 = mul(r0, r1)
    w[o0] = r2
)"},
      {"the update of a weight, in the loop of its gradient",
       [] {
         Tensor w = parameter("w", "3->2");
         return assign(w, w - einsum("b|o; b|i => i->o", parameter("dy", "4|2"), parameter("x", "4|3")));
       },
       {fuse, forward_stores},
       R"(
kernel einsum
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
         Tensor w = parameter("w", "3");
         return assign(w, exp(w)) & observe(sum(w).named("total"));
       },
       {},
       R"(
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
      {"what reads the new value reads the state",
       [] {
         Tensor w = parameter("w", "3"), next = exp(w);
         return assign(w, next) & observe(sum(next).named("total"));
       },
       {},
       R"(
kernel exp
  for o0 < 3:
    r0:f32 = w[o0]
    r1:f32 = exp(r0)
    w[o0] = r1
kernel total
  r1:f32 := 0
  for o0 < 3:
    r0:f32 = w[o0]
    r1 += r0
  total[0] = r1
)"},
  };
  expect_rewritten(update_in_place, rows);
}

TEST(UpdateInPlace, MustRefuse) {
  const std::vector<LoopRefusal> hand_rows = {
      {"an update before the old value's last reader",
       [] {
         Tensor w = parameter("w", "3"), next = exp(w);
         return assign(w, next) & observe(sum(next * w));
       },
       {}},
      {"the same in one kernel, where the new value is in a register",
       [] {
         Tensor w = parameter("w", "3"), next = exp(w);
         return assign(w, next) & observe(next * w);
       },
       {fuse, forward_stores}},
      {"other elements of the old value",
       [] {
         Tensor w = parameter("w", "3");
         return assign(w, einsum("-i=>i", w));
       },
       {}},
      {"a reduction over the old value",
       [] {
         Tensor w = parameter("w", "3,3");
         return assign(w, einsum("ij;jk=>ik", w, w));
       },
       {}},
      {"a value that is observed",
       [] {
         Tensor w = parameter("w", "3"), next = exp(w);
         return assign(w, next) & observe(next);
       },
       {}},
      {"a value that two states get",
       [] {
         Tensor v = parameter("v", "3"), w = parameter("w", "3"), next = exp(v);
         return assign(v, next) & assign(w, next);
       },
       {}},
      {"more than one store: elements that are not written are filled",
       [] { return assign(parameter("w", "4"), einsum("i^1 => 1^i", parameter("b", "4"))); },
       {}},
  };
  expect_refused(update_in_place, hand_rows);
  // Without copy_leaves a state itself may be observed: what is seen is the old value.
  Tensor w = parameter("w", "3");
  const loop::Module seen = lower::lower(to_ir(assign(w, exp(w)) & observe(w)));
  ASSERT_EQ(seen.observed, std::vector<ir::BufferId>{seen.assignments[0].state});
  EXPECT_EQ(update_in_place(seen).assignments.size(), 1u);
  // Of a swap one half can be in place, after the other was copied.
  Tensor a = parameter("a", "3"), b = parameter("b", "3");
  EXPECT_EQ(update_in_place(lowered(assign(a, b) & assign(b, a))).assignments.size(), 1u);
}

}  // namespace
}  // namespace caravan::schedule
