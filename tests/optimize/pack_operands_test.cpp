// Operands are copied into the order in which they are read.
#include "caravan/optimize/pack_operands.h"

#include <gtest/gtest.h>

#include "caravan/optimize/split_sums.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

TEST(PackOperands, BeforeAndAfter) {
  const std::vector<Rewrite> rows = {
      {"a short sum, many rows: the weights are copied with the written axis last",
       [] { return observe(einsum("b,k; o,k => b,o", parameter("x", "16,3"), parameter("w", "8,3")).named("y")); },
       "y[b, o] += x[b, k] * w[o, k]   for b < 16, o < 8, k < 3\n", R"(
packed w 3[i0, i1] += w[i1, i0]   for i0 < 3, i1 < 8
y[b, o] += x[b, k] * packed w 3[k, o]   for b < 16, o < 8, k < 3
)"},
      {"a window: one copy for both that read it so",
       [] {
         Tensor w = parameter("w", "8,3");
         return observe({einsum("i+k; o,k => i,o", parameter("x", "20"), w).named("y"),
                         einsum("i+k; o,k => i,o", parameter("z", "20"), w).named("v")});
       },
       R"(
y[i, o] += x[i + k] * w[o, k]   for i < 18, o < 8, k < 3
v[i, o] += z[i + k] * w[o, k]   for i < 18, o < 8, k < 3
)",
       R"(
packed w 5[i0, i1] += w[i1, i0]   for i0 < 3, i1 < 8
y[i, o] += x[i + k] * packed w 5[k, o]   for i < 18, o < 8, k < 3
v[i, o] += z[i + k] * packed w 5[k, o]   for i < 18, o < 8, k < 3
)"},
  };
  expect_rewritten(for_tested(pack_operands), rows);
}

TEST(PackOperands, MustRefuse) {
  const std::vector<Refusal> hand_rows = {
      {"few rows", [] { return observe(einsum("b,k; o,k => b,o", parameter("x", "15,3"), parameter("w", "8,3"))); }},
      {"a written axis too short for lanes",
       [] { return observe(einsum("b,k; o,k => b,o", parameter("x", "64,3"), parameter("w", "7,3"))); }},
      {"no sum", [] { return observe(einsum("b; o,k => b,k,o", parameter("x", "64"), parameter("w", "8,3"))); }},
      {"another operand that cannot be packed",
       [] { return observe(einsum("b,2*o+k; o,k => b,o", parameter("x", "64,17"), parameter("w", "8,3"))); }},
      {"neighbours already",
       [] { return observe(einsum("b,k; k,o => b,o", parameter("x", "64,3"), parameter("w", "3,8"))); }},
      {"an index tensor",
       [] {
         return observe(
             gather(parameter("t", "3->9"), tensor(Array(parse_shape("64|"), std::vector<double>(64, 1), DType::i32))));
       }},
  };
  expect_refused(for_tested(pack_operands), hand_rows);
  const ir::Program split = split_sums(
      prepared(observe(einsum("b,k; o,k => b,o", parameter("x", "60,32"), parameter("w", "8,32")))), tested_target());
  EXPECT_EQ(body_of(pack_operands(split, tested_target())), body_of(split)) << "a split sum";
}

}  // namespace
}  // namespace caravan::optimize
