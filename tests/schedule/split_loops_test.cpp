// Loops of partial sums and of blocks.
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
       [] { return observe(einsum("i,j => i", parameter("a", "3,35")).named("y")); },
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
       [] { return observe(einmax("i,j => i", parameter("a", "3,35")).named("y")); },
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
       [] { return observe(einsum("i,j; j => i", parameter("a", "3,32"), parameter("b", "32")).named("y")); },
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
       [] { return observe(einsum("i,k,j => i", parameter("a", "3,2,32")).named("y")); },
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
       [] { return observe(einsum("i,k,j => i", parameter("a", "3,2,33")).named("y")); },
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
       [] { return observe(einsum("i<1+j; j => i", parameter("a", "40"), parameter("b", "40")).named("y")); },
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

TEST(SplitLoops, Blocks) {
  const std::vector<LoopRewrite> rows = {
      {"blocks with a sum of their own",
       [] { return observe(einsum("b,c => c", parameter("x", "1000,64")).named("y")); },
       {},
       R"(
kernel y
  for c < 64:
    r1:f32 := 0
    for b_block < 20:
      r2:f32 := 0
      for b < 50:
        r3:f32 = x[c + 64*b + 3200*b_block]
        r2 += r3
      r1 += r2
    y[c] = r1
)",
       R"(
kernel y
  for c < 64:
    r1:f32 := 0
    for b < 1000 in blocks of 50:
      r0:f32 = x[c + 64*b]
      r1 += r0
    y[c] = r1
)"},
      {"what is left over is a block",
       [] { return observe(einsum("b,c => c", parameter("x", "257,64")).named("y")); },
       {},
       R"(
kernel y
  for c < 64:
    r1:f32 := 0
    for b_block < 4:
      r2:f32 := 0
      for b < 64:
        r3:f32 = x[c + 64*b + 4096*b_block]
        r2 += r3
      r1 += r2
    r4:f32 := 0
    r5:f32 = x[c + 16384]
    r4 += r5
    r1 += r4
    y[c] = r1
)",
       R"(
kernel y
  for c < 64:
    r1:f32 := 0
    for b < 257 in blocks of 64:
      r0:f32 = x[c + 64*b]
      r1 += r0
    y[c] = r1
)"},
      {"blocks of blocks, in lanes",
       [] { return observe(einsum("i => ", parameter("x", "1000003")).named("y")); },
       {},
       R"(
kernel y
  r1:f32 := 0
  for i_lane < 8:
    r2:f32 := 0
    for i_block3 < 4:
      r3:f32 := 0
      for i_block2 < 25:
        r4:f32 := 0
        for i_block < 25:
          r5:f32 := 0
          for i < 50:
            r6:f32 = x[8*i + i_lane + 250000*i_block3 + 10000*i_block2 + 400*i_block]
            r5 += r6
          r4 += r5
        r3 += r4
      r2 += r3
    if 2 - i_lane >= 0:
      r7:f32 = x[i_lane + 1000000]
      r2 += r7
    r1 += r2
  y[0] = r1
)",
       R"(
kernel y
  r1:f32 := 0
  for i < 1000003 in 8 partial sums in blocks of 400, 10000, 250000:
    r0:f32 = x[i]
    r1 += r0
  y[0] = r1
)"},
      {"a row is a block",
       [] { return observe(einsum("b,h,c => c", parameter("x", "10,100,32")).named("y")); },
       {},
       R"(
kernel y
  for c < 32:
    r1:f32 := 0
    for b_block < 10:
      r2:f32 := 0
      for h < 100:
        r3:f32 = x[c + 32*h + 3200*b_block]
        r2 += r3
      r1 += r2
    y[c] = r1
)",
       R"(
kernel y
  for c < 32:
    r1:f32 := 0
    for b < 10 in blocks of 1:
      for h < 100:
        r0:f32 = x[c + 3200*b + 32*h]
        r1 += r0
    y[c] = r1
)"},
      {"lanes for each row, rows in blocks",
       [] { return observe(einsum("i,j => ", parameter("x", "100,33")).named("y")); },
       {},
       R"(
kernel y
  r1:f32 := 0
  for i_block < 20:
    r5:f32 := 0
    for i < 5:
      for j_lane < 8:
        r6:f32 := 0
        for j < 4:
          r7:f32 = x[33*i + 8*j + j_lane + 165*i_block]
          r6 += r7
        if -j_lane >= 0:
          r8:f32 = x[33*i + j_lane + 165*i_block + 32]
          r6 += r8
        r5 += r6
    r1 += r5
  y[0] = r1
)",
       R"(
kernel y
  r1:f32 := 0
  for i < 100 in blocks of 5:
    for j < 33 in 8 partial sums:
      r0:f32 = x[33*i + j]
      r1 += r0
  y[0] = r1
)"},
  };
  expect_rewritten(split_loops, rows, split_lowered);
}

TEST(SplitLoops, MustRefuse) {
  for (const char* spec : {"i,j => j", "i => "}) {  // side by side already; too short: split_sums chose neither
    const loop::Module module = split_lowered(observe(
        einsum(caravan::spec(spec, Source::here()), parameter("a", std::string(spec) == "i => " ? "20" : "64,64"))));
    EXPECT_EQ(loops(split_loops(module)), loops(module)) << spec;
  }
  const loop::Module module = split_lowered(observe(einprod("i,j => i", parameter("a", "3,64"))));
  EXPECT_EQ(loops(split_loops(module)), loops(module)) << "a product";
}

}  // namespace
}  // namespace caravan::schedule
