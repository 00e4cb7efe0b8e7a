// The loops over partial sums become vector loops, for compilers of plain C.
#include "caravan/schedule/lanes_inside.h"

#include <gtest/gtest.h>

#include "caravan/schedule/split_loops.h"
#include "schedule/split_lowered.h"

namespace caravan::schedule {
namespace {

loop::Module with_lanes(const loop::Module& module) { return lanes_inside(split_loops(module), plain_c()); }

TEST(LanesInside, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"the partial sums of a long sum",
       [] { return observe(einsum("i,j; j => i", parameter("a", "4,32"), parameter("b", "32")).named("y")); },
       {},
       R"(
kernel y
  for i < 4:
    r3:f32 := 0
    for j_lane < 8 vector:
      r4:f32 := 0
      for j < 4:
        r5:f32 = a[32*i + 8*j + j_lane]
        r6:f32 = b[8*j + j_lane]
        r7:f32 = mul(r5, r6)
        r4 += r7
      r3 += r4
    y[i] = r3
)"},
  };
  expect_rewritten(with_lanes, rows, split_lowered);
}

TEST(LanesInside, LeavesOtherLoopsAlone) {
  const Refusal rows[] = {
      {"no sum", [] { return observe(parameter("a", "20,64") + 1); }},
      {"a sum without lanes", [] { return observe(einsum("i,j => i", parameter("a", "4,7"))); }},
      {"eight blocks, whose terms are not neighbours",
       [] { return observe(einsum("i,j => j", parameter("a", "512,9"))); }},
  };
  for (const Refusal& row : rows) {
    const loop::Module before = split_loops(split_lowered(row.program()));
    EXPECT_EQ(loops(lanes_inside(before, plain_c())), loops(before)) << row.reason;
  }
}

}  // namespace
}  // namespace caravan::schedule
