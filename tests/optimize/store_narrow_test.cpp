// What is rounded to bf16 is stored as bf16.
#include "caravan/optimize/store_narrow.h"

#include <gtest/gtest.h>

#include "caravan/optimize/inline_producers.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

Tensor rounded(const Tensor& x) { return cast(cast(x, DType::bf16), DType::f32); }

TEST(StoreNarrow, ReadersWidenOrReadItAsItIs) {
  const Tensor a = parameter("a", "3,4"), b = parameter("b", "4,5"), g = rounded(exp(a)).named("g");
  const ir::Program before = inline_producers(
      prepared(observe({einsum("i, j => j", g).named("s"),
                        einsum("i, j; j, k => i, k", cast(g, DType::bf16), cast(b, DType::bf16)).named("y")})));
  const ir::Program after = store_narrow(before);
  ir::verify(after);
  EXPECT_EQ(accumulations(after), trimmed(R"(
g[o0, o1] += bf16(exp(a[o0, o1]))   for o0 < 3, o1 < 4
s[j] += f32(g[i, j])   for j < 4, i < 3
cast bf16.2[o0, o1] += bf16(b[o0, o1])   for o0 < 4, o1 < 5
y[i, k] += g[i, j] * cast bf16.2[j, k]   for i < 3, k < 5, j < 4
)")) << accumulations(before);
  for (const ir::Buffer& buffer : after.buffers) EXPECT_TRUE(buffer.name != "g" || buffer.dtype == DType::bf16);
}

TEST(StoreNarrow, MustRefuse) {
  const std::vector<Refusal> hand_rows = {
      {"what is observed", [] { return observe(rounded(exp(parameter("a", "3"))).named("g")); }},
      {"what is assigned",
       [] {
         Tensor w = parameter("w", "3");
         return assign(w, rounded(exp(w)));
       }},
      {"a sum that is rounded where it is read",
       [] {
         Tensor s = einsum("i, j => i", parameter("a", "3,4"));
         return observe({rounded(s * 2).named("p"), rounded(s * 3).named("q")});
       }},
  };
  for (const Refusal& row : hand_rows) {
    SCOPED_TRACE(row.reason);
    const ir::Program before = inline_producers(prepared(row.program()));
    EXPECT_EQ(to_string(store_narrow(before)), to_string(before));
  }
}

}  // namespace
}  // namespace caravan::optimize
