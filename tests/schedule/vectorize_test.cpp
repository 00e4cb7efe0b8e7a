// Vector loops and unrolled loops around them.
#include "caravan/schedule/vectorize.h"

#include <gtest/gtest.h>

#include "caravan/base/error.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "caravan/schedule/split_loops.h"
#include "pass_table.h"
#include "schedule/split_lowered.h"

namespace caravan::schedule {
namespace {

TEST(Vectorize, BeforeAndAfter) {
  auto both = [](const loop::Module& m) { return vectorize(split_loops(m), tested_target()); };
  const std::vector<LoopRewrite> rows = {
      {"a long pointwise loop", [] { return observe((parameter("a", "3,9") + 1).named("y")); }, {}, R"(
kernel y
  for o0 < 3:
    for o1 < 9 vector:
      r0:f32 = a[9*o0 + o1]
      r1:f64 = 1
      r2:f32 = add(r0, r1)
      y[9*o0 + o1] = r2
)"},
      {"a product: blocks of lanes in blocks of rows, of as many as leave none over",
       [] { return observe(einsum("i,k; k,j => i,j", parameter("a", "6,5"), parameter("b", "5,20")).named("y")); },
       {},
       R"(
kernel y
  for i_block < 2 unrolled:
    for i_row < 3 unrolled:
      for j_in < 16 vector:
        r20:f32 := 0
        for k < 5:
          r21:f32 = a[k + 5*i_row + 15*i_block]
          r22:f32 = b[20*k + j_in]
          r23:f32 = mul(r21, r22)
          r20 += r23
        y[j_in + 20*i_row + 60*i_block] = r20
      for j_in < 4 vector:
        r24:f32 := 0
        for k < 5:
          r25:f32 = a[k + 5*i_row + 15*i_block]
          r26:f32 = b[20*k + j_in + 16]
          r27:f32 = mul(r25, r26)
          r24 += r27
        y[j_in + 20*i_row + 60*i_block + 16] = r24
)"},
      {"what is left over of both",
       [] { return observe(einsum("i,k; k,j => i,j", parameter("a", "11,5"), parameter("b", "5,9")).named("y")); },
       {},
       R"(
kernel y
  for i_block < 2 unrolled:
    for i_row < 4 unrolled:
      for j_in < 8 vector:
        r28:f32 := 0
        for k < 5:
          r29:f32 = a[k + 5*i_row + 20*i_block]
          r30:f32 = b[9*k + j_in]
          r31:f32 = mul(r29, r30)
          r28 += r31
        y[j_in + 9*i_row + 36*i_block] = r28
      for j_in < 1:
        r32:f32 := 0
        for k < 5:
          r33:f32 = a[k + 5*i_row + 20*i_block]
          r34:f32 = b[9*k + j_in + 8]
          r35:f32 = mul(r33, r34)
          r32 += r35
        y[j_in + 9*i_row + 36*i_block + 8] = r32
  for i_row < 3 unrolled:
    for j_in < 8 vector:
      r20:f32 := 0
      for k < 5:
        r21:f32 = a[k + 5*i_row + 40]
        r22:f32 = b[9*k + j_in]
        r23:f32 = mul(r21, r22)
        r20 += r23
      y[j_in + 9*i_row + 72] = r20
    for j_in < 1:
      r24:f32 := 0
      for k < 5:
        r25:f32 = a[k + 5*i_row + 40]
        r26:f32 = b[9*k + j_in + 8]
        r27:f32 = mul(r25, r26)
        r24 += r27
      y[j_in + 9*i_row + 80] = r24
)"},
      {"one row: its blocks are taken together",
       [] { return observe(einsum("k; k,j => j", parameter("a", "40"), parameter("b", "40,64")).named("y")); },
       {},
       R"(
kernel y
  for j_block < 4 unrolled:
    for j_in < 16 vector:
      r8:f32 := 0
      for k < 40:
        r9:f32 = a[k]
        r10:f32 = b[64*k + j_in + 16*j_block]
        r11:f32 = mul(r9, r10)
        r8 += r11
      y[j_in + 16*j_block] = r8
)"},
      {"a split sum: lanes of the sum, rows share what they read",
       [] { return observe(einsum("i,j; j => i", parameter("a", "4,512"), parameter("b", "512")).named("y")); },
       {},
       R"(
kernel y
  for i_row < 4 unrolled:
    r12:f32 := 0
    for j_lane_in < 8 vector:
      r13:f32 := 0
      for j < 64:
        r14:f32 = a[8*j + j_lane_in + 512*i_row]
        r15:f32 = b[8*j + j_lane_in]
        r16:f32 = mul(r14, r15)
        r13 += r16
      r12 += r13
    y[i_row] = r12
)"},
      {"rows of both sides",
       [] { return observe(einsum("i,j; k,j => k,i", parameter("a", "2,32"), parameter("b", "2,32")).named("y")); },
       {},
       R"(
kernel y
  for k_row < 2 unrolled:
    for i_row < 2 unrolled:
      r17:f32 := 0
      for j_lane_in < 8 vector:
        r18:f32 := 0
        for j < 4:
          r19:f32 = a[8*j + j_lane_in + 32*i_row]
          r20:f32 = b[8*j + j_lane_in + 32*k_row]
          r21:f32 = mul(r19, r20)
          r18 += r21
        r17 += r18
      y[i_row + 2*k_row] = r17
)"},
      {"the innermost loop is short: lanes of another",
       [] { return observe(einsum("b,o; b,k => o,k", parameter("a", "5,8"), parameter("b", "5,3")).named("y")); },
       {},
       R"(
kernel y
  for k_row < 3 unrolled:
    for o_in < 8 vector:
      r8:f32 := 0
      for b < 5:
        r9:f32 = a[8*b + o_in]
        r10:f32 = b[3*b + k_row]
        r11:f32 = mul(r9, r10)
        r8 += r11
      y[3*o_in + k_row] = r8
)"},
  };
  expect_rewritten(both, rows, split_lowered);
}

TEST(Vectorize, MustRefuse) {
  const std::vector<LoopRefusal> hand_rows = {
      {"too short", [] { return observe(parameter("a", "3,7") + 1); }, {}},
      {"a chain of sums in one accumulator", [] { return observe(einsum("i => ", parameter("a", "20"))); }, {}},
      {"neighbours that are far apart", [] { return observe(einsum("i,j => i", parameter("a", "20,3"))); }, {}},
      {"elements that overlap",
       [] {
         return observe(einsum("o => o+k", parameter("a", "4"), {{"k", 3}}));
       },
       {}},
  };
  expect_refused(for_tested(vectorize), hand_rows);
}

TEST(Vectorize, MakesATileOfRowsWhereItPays) {
  auto unrolled = [](const Program& program) {
    return loops(vectorize(split_loops(split_lowered(program)), tested_target())).find("unrolled") != std::string::npos;
  };
  auto dot = [](const std::string& width) {
    return observe(einsum("b, c; c => b", parameter("a", "20," + width), parameter("w", width)));
  };
  EXPECT_TRUE(unrolled(dot("512"))) << "long sums of rows that share a factor";
  EXPECT_FALSE(unrolled(dot("64"))) << "short ones, whose other factor is read once";
  EXPECT_TRUE(unrolled(observe(einsum("b, c; o, c => b, o", parameter("a", "10,64"), parameter("w", "20,64")))))
      << "a product reads every element several times";
  auto step = [] {
    Tensor w = parameter("w", "30,64");
    return assign(w, w - einsum("b, o; b, k => o, k", parameter("d", "40,30"), parameter("x", "40,64")));
  };
  const loop::Module fused = forward_stores(fuse(split_lowered(step())));
  ASSERT_EQ(fused.kernels.size(), 1u);
  EXPECT_NE(loops(vectorize(split_loops(fused), tested_target())).find("unrolled"), std::string::npos)
      << "so does the gradient of a weight, whose old value the update in its kernel reads once";
}

TEST(Vectorize, TheVerifierRefusesWhatCannotRunSideBySide) {
  auto refused = [](const Program& program) {
    loop::Module m = lowered(program);
    std::get<loop::For>(statements(m.kernels.back()).back()).kind = loop::LoopKind::vector;
    EXPECT_THROW(loop::verify(m), InternalError) << loops(m);
  };
  refused(observe(einsum("i => ", einsum("i=>i", parameter("a", "20")))) &
          observe(einsum("o => o+k", parameter("b", "20"), {{"k", 3}})));  // overlapping
  refused(observe(scatter_add(parameter("v", "4|"), tensor(Array(parse_shape("4|"), {0, 1, 0, 1}, DType::i32)), 2)));
}

}  // namespace
}  // namespace caravan::schedule
