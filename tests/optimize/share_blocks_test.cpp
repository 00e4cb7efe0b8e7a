// The blocks of long sums become parts, which threads can share.
#include "caravan/optimize/share_blocks.h"

#include <gtest/gtest.h>

#include "caravan/optimize/split_sums.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

ir::Program shared(const Tensor& sum) {
  const ir::Program ordered = split_sums(to_ir(observe(sum)), tested_target());
  const ir::Program out = share_blocks(ordered, tested_target());
  ir::verify(out);
  return out;
}

TEST(ShareBlocks, BeforeAndAfter) {
  const std::vector<std::pair<Tensor, std::vector<std::string>>> rows = {
      {einsum("b,c => c", parameter("a", "2048,128")),
       {"part of einsum 2[b_block, c] += a[b + 64*b_block, c]   for c < 128, b < 64, b_block < 32   #",
        "einsum[c] += part of einsum 2[b_block, c]   for b_block < 32, c < 128   #"}},
      {einsum("b,h,c => c", parameter("a", "64,200,24")),  // in blocks of one b, and these in blocks of 32
       {"part of einsum 2[b_block, c] += a[b + b_block, h, c]   for c < 24, b < 1, h < 200, b_block < 64   #",
        "einsum[c] += part of einsum 2[b_block, c]   for b_block < 64, c < 24   # b,h,c => c, "
        "share_blocks_test.cpp:24, "
        "summed in blocks of 32 b_block"}},
  };
  for (const auto& [sum, lines] : rows) {
    const ir::Program program = shared(sum);
    ASSERT_EQ(program.accumulations.size(), lines.size()) << ir::to_string(program);
    for (size_t k = 0; k < lines.size(); ++k)
      EXPECT_TRUE(ir::to_string(program, program.accumulations[k]).starts_with(lines[k]))
          << ir::to_string(program, program.accumulations[k]);
  }
}

TEST(ShareBlocks, MustRefuse) {
  const std::vector<std::pair<const char*, Tensor>> rows = {
      {"short sums", einsum("b,c => c", parameter("a", "200,128"))},
      {"as many sums as threads can share", einsum("b,c => c", parameter("a", "2048,1024"))},
      {"a sum with lanes", einsum("b,c => ", parameter("a", "2048,1024"))},
      {"a contraction", einsum("b,i; b,j => i,j", parameter("a", "2048,16"), parameter("b", "2048,16"))},
      {"a maximum", einmax("b,c => c", parameter("a", "2048,128"))},
      {"narrow floats, which would round in between",
       einsum("b,c => c", cast(parameter("a", "2048,128"), DType::bf16))},
  };
  for (const auto& [reason, sum] : rows)
    for (const ir::Accumulation& a : shared(sum).accumulations)
      EXPECT_FALSE(a.label.starts_with("part of")) << reason << ": " << a.label;
}

}  // namespace
}  // namespace caravan::optimize
