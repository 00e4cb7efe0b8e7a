// Buffers from which vectors are loaded, and which begin at a cache line.
#include "caravan/schedule/mark_aligned.h"

#include <gtest/gtest.h>

#include "caravan/schedule/expand_lanes.h"
#include "caravan/schedule/vectorize.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

const std::vector<LoopPass> kVectors = {for_tested(vectorize), for_tested(expand_lanes)};

// The elements of `w` are the vectors: each is multiplied by all of x.
Program product(const Tensor& w) { return observe(einsum("n,i; i,o => n,o", parameter("x", "4,8"), w).named("y")); }
Program of_computed() { return product(exp(parameter("w", "8,16")).named("e")); }

TEST(MarkAligned, BeforeAndAfter) {
  expect_rewritten(for_tested(mark_aligned), {{"a factor that a kernel before has computed", of_computed, kVectors, R"(
kernel e
  for o0 < 8:
    for o1 < 16 vector:
      r0:f32 = w[16*o0 + o1]
      r1:f32 = exp(r0)
      e[16*o0 + o1] = r1
kernel y
  aligned e
  local sum:f32[64] in registers
  for n_row < 4 written out:
    for o_in < 16 as vectors:
      r12:f32 = 0
      sum[o_in + 16*n_row] = r12
  for i < 8:
    for n_row < 4 written out:
      for o_in_vector < 2 written out:
        r9:f32 = x[i + 8*n_row]
        r10:f32x8 = e[16*i + 8*o_in_vector]
        r11:f32x8 = mul(r9, r10)
        sum[16*n_row + 8*o_in_vector] += r11
  for n_row < 4 written out:
    for o_in < 16 as vectors:
      r13:f32 = sum[o_in + 16*n_row]
      y[o_in + 16*n_row] = r13
)"}});
}
TEST(MarkAligned, Refuses) {
  expect_refused(for_tested(mark_aligned), {{"a parameter, which may be memory of the user",
                                             [] { return product(parameter("w", "8,16")); }, kVectors},
                                            {"a buffer of which no vectors are loaded", of_computed, {}}});
}
TEST(MarkAligned, RefusesATargetThatPlacesBuffersElsewhere) {
  Target target = tested_target();
  target.tuning.alignment = 16;
  const loop::Module module = after_all(kVectors, lowered(of_computed()));
  EXPECT_EQ(loops(mark_aligned(module, target)), loops(module));
}

}  // namespace
}  // namespace caravan::schedule
