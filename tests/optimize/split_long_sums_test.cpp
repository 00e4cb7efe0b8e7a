// Long sums into few elements, in two steps.
#include "caravan/optimize/split_long_sums.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::optimize {
namespace {

ir::Program on_gpu(const ir::Program& program) { return split_long_sums(program, gpu_target()); }

TEST(SplitLongSums, BeforeAndAfter) {
  const std::vector<Rewrite> rows = {
      {"an iterator of the sum is kept in the first step",
       [] { return observe(einsum("b,h,c => c", parameter("x", "64,64,16")).named("y")); }, R"(
y[c] += x[b, h, c]   for c < 16, b < 64, h < 64
)",
       R"(
part of y 2[b, c] += x[b, h, c]   for c < 16, b < 64, h < 64
y[c] += part of y 2[b, c]   for b < 64, c < 16
)"},
      {"a long one is divided", [] { return observe(einsum("b,c => c", parameter("x", "8192,16")).named("y")); }, R"(
y[c] += x[b, c]   for c < 16, b < 8192
)",
       R"(
part of y 2[b_block, c] += x[b + 128*b_block, c]   for c < 16, b < 128, b_block < 64
y[c] += part of y 2[b_block, c]   for b_block < 64, c < 16
)"},
      {"a sum of everything", [] { return observe(einsum("i => ", parameter("x", "4096")).named("y")); }, R"(
y += x[i]   for i < 4096
)",
       R"(
part of y 2[i_block] += x[i + 64*i_block]   for i < 64, i_block < 64
y += part of y 2[i_block]   for i_block < 64
)"},
  };
  expect_rewritten(on_gpu, rows);
}

TEST(SplitLongSums, MustRefuse) {
  const std::vector<Refusal> rows = {
      {"a short sum", [] { return observe(einsum("b,c => c", parameter("x", "1024,16"))); }},
      {"as many sums as all multiprocessors can share",
       [] { return observe(einsum("b,c => c", parameter("x", "2048,16384"))); }},
      {"terms that no number of parts divides", [] { return observe(einsum("b,c => c", parameter("x", "4099,16"))); }},
      {"a maximum", [] { return observe(einmax("b,c => c", parameter("x", "8192,16"))); }},
      {"integers", [] { return observe(einsum("b,c => c", cast(parameter("x", "8192,16"), DType::i32))); }},
      {"narrow floats, which would round in between",
       [] { return observe(einsum("b,c => c", cast(parameter("x", "8192,16"), DType::bf16))); }},
      {"a sum with conditions",
       [] { return observe(einsum("i<1+k; k => i", parameter("x", "8192"), parameter("w", "8192"))); }},
      {"a sum that is scattered",
       [] {
         return observe(scatter_add(parameter("v", "8192|8"),
                                    tensor(Array(parse_shape("8192|"), std::vector<double>(8192, 1), DType::i32)), 3));
       }},
  };
  expect_refused(on_gpu, rows);
}

// The choice depends on the sizes and the GPU alone: another GPU may have other parts.
TEST(SplitLongSums, PartsFollowFromTheGpu) {
  const ir::Program program = prepared(observe(einsum("b,c => c", parameter("x", "8192,16")).named("y")));
  for (const int64_t parts : {4, 16, 64}) {
    const ir::Program out = split_long_sums(program, gpu_target({.most_parts = parts}));
    ASSERT_EQ(out.accumulations.size(), 2u);
    EXPECT_EQ(out.buffers[size_t(out.accumulations[0].target)].shape.elements(), parts * 16);
  }
}

}  // namespace
}  // namespace caravan::optimize
