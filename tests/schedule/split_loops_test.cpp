// Loops of partial sums.
#include "caravan/schedule/split_loops.h"

#include <gtest/gtest.h>

#include "caravan/optimize/split_sums.h"
#include "pass_table.h"
#include "schedule/split_lowered.h"

namespace caravan::schedule {
namespace {

TEST(SplitLoops, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"lanes with partial sums, and what is left over",
       [] { return observe(einsum("i,j => i", leaf("a", "3,35")).named("y")); },
       {},
       R"(
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
      {"the largest of lanes",
       [] { return observe(einmax("i,j => i", leaf("a", "3,35")).named("y")); },
       {},
       R"(
kernel y
  for i < 3:
    r1:f32 := -inf
    for j_lane < 8:
      r2:f32 := -inf
      for j < 4:
        r3:f32 = a[35*i + 8*j + j_lane]
        r2 max= r3
      if 2 - j_lane >= 0:
        r4:f32 = a[35*i + j_lane + 32]
        r2 max= r4
      r1 max= r2
    y[i] = r1
)"},
      {"no lane has more than the others",
       [] { return observe(einsum("i,j; j => i", leaf("a", "3,32"), leaf("b", "32")).named("y")); },
       {},
       R"(
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
      {"lanes go around all loops of the sum",
       [] { return observe(einsum("i,k,j => i", leaf("a", "3,2,32")).named("y")); },
       {},
       R"(
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
      {"but not with a rest, which would be a condition in those loops",
       [] { return observe(einsum("i,k,j => i", leaf("a", "3,2,33")).named("y")); },
       {},
       R"(
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
      {"under a condition",
       [] { return observe(einsum("i<1+j; j => i", leaf("a", "40"), leaf("b", "40")).named("y")); },
       {},
       R"(
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
  };
  expect_rewritten(split_loops, rows, split_lowered);
}

TEST(SplitLoops, MustRefuse) {
  for (const char* spec : {"i,j => j", "i => "}) {  // side by side already; too short: split_sums chose neither
    const loop::Module module = split_lowered(
        observe(einsum(caravan::spec(spec, Source::here()), leaf("a", std::string(spec) == "i => " ? "20" : "64,64"))));
    EXPECT_EQ(loops(split_loops(module)), loops(module)) << spec;
  }
  const loop::Module module = split_lowered(observe(einprod("i,j => i", leaf("a", "3,64"))));
  EXPECT_EQ(loops(split_loops(module)), loops(module)) << "a product";
}

}  // namespace
}  // namespace caravan::schedule
