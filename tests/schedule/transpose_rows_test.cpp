// Short sums over rows are computed for many rows at once.
#include "caravan/schedule/transpose_rows.h"

#include <gtest/gtest.h>

#include "caravan/loop/walk.h"
#include "caravan/nn/nn.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "pass_table.h"
#include "split_lowered.h"

namespace caravan::schedule {
namespace {

using namespace loop;

const std::vector<LoopPass> kFused = {fuse, forward_stores};
const LoopPass kPass = [](const Module& module) { return transpose_rows(module, tested_target()); };

TEST(TransposeRows, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"rows that fill two vectors, and a remainder",
       [] { return observe(einmax("b, c => b", parameter("x", "19,9")).named("y")); }, kFused,
       R"(
kernel y
  local rows:f32[72] in memory, aligned to 64 bytes
  for b_block < 2:
    for b_in < 8:
      for b_row < 9:
        r4:f32 = x[72*b_block + 9*b_in + b_row]
        rows[b_in + 8*b_row] = r4
    for b_in < 8 vector:
      r2:f32 := -inf
      for c < 9 not unrolled:
        r3:f32 = rows[8*c + b_in]
        r2 max= r3
      y[8*b_block + b_in] = r2
  for b_rest < 3:
    r5:f32 := -inf
    for c < 9:
      r6:f32 = x[c + 9*b_rest + 144]
      r5 max= r6
    y[b_rest + 16] = r5
)"}};
  expect_rewritten(kPass, rows);
}

TEST(TransposeRows, Refuses) {
  const std::vector<LoopRefusal> rows = {
      {"rows that are neighbours in memory", [] { return observe(einmax("c, b => b", parameter("x", "9,16"))); },
       kFused},
      {"a sum of products",
       [] { return observe(einsum("b, c; b, c => b", parameter("x", "16,9"), parameter("z", "16,9"))); }, kFused},
      {"fewer rows than a vector has lanes", [] { return observe(einmax("b, c => b", parameter("x", "7,9"))); },
       kFused},
      {"f16", [] { return observe(einmax("b, c => b", param("x", Array(parse_shape("16,9"), DType::f16)))); }, kFused},
  };
  expect_refused(kPass, rows);
  const Module in_lanes = split_lowered(observe(einmax("b, c => b", parameter("x", "16,64"))));
  EXPECT_EQ(loops(kPass(in_lanes)), loops(in_lanes)) << "a long sum, which has partial sums";
}

Array value(const Tensor& result, const std::vector<std::string>& off) {
  Context ctx({.device = "cpu", .passes_off = off});
  Routine routine = ctx.compile(observe(result));
  routine.run();
  return routine.read(result);
}
TEST(TransposeRows, ChangesNoBit) {
  for (const char* shape : {"16,9", "40,28", "67,10", "3,17,2,16", "2,5,8,31"})
    for (DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(shape);
      Array numbers(parse_shape(shape), dtype);
      for (int64_t i = 0; i < numbers.size(); ++i) numbers.set(i, 0.05 * double(i * 7919 % 101 - 50));
      numbers.set(3, std::nan(""));  // a row whose maximum is not a number
      const Tensor x = param("x", numbers), y = nn::softmax(x) * argmax("..., c => ..., 0", x);
      const Array with = value(y, {}), without = value(y, {"transpose_rows"});
      for (int64_t i = 0; i < with.size(); ++i)
        ASSERT_TRUE(with.at(i) == without.at(i) || (std::isnan(with.at(i)) && std::isnan(without.at(i)))) << i;
    }
}

}  // namespace
}  // namespace caravan::schedule
