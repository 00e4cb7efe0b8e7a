// Equal accumulations are one.
#include "caravan/optimize/merge_equal.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::optimize {
namespace {

TEST(MergeEqual, BeforeAndAfter) {
  const std::vector<Rewrite> rows = {
      {"the same twice",
       [] {
         Tensor a = parameter("a", "3"), x = exp(a), y = exp(a);
         return observe((x + y).named("z"));
       },
       R"(
exp[o0] += exp(a[o0])   for o0 < 3
exp.1[o0] += exp(a[o0])   for o0 < 3
z[o0] += exp[o0] + exp.1[o0]   for o0 < 3
)",
       R"(
exp[o0] += exp(a[o0])   for o0 < 3
z[o0] += exp[o0] + exp[o0]   for o0 < 3
)"},
      {"what is equal once its operands are",
       [] {
         Tensor a = parameter("a", "3");
         return observe({sin(exp(a)).named("x"), sin(exp(a)).named("y")});
       },
       R"(
exp[o0] += exp(a[o0])   for o0 < 3
x[o0] += sin(exp[o0])   for o0 < 3
exp.1[o0] += exp(a[o0])   for o0 < 3
y[o0] += sin(exp.1[o0])   for o0 < 3
)",
       R"(
exp[o0] += exp(a[o0])   for o0 < 3
x[o0] += sin(exp[o0])   for o0 < 3
)"},
  };
  expect_rewritten(merge_equal, rows);
}

TEST(MergeEqual, MustRefuse) {
  const std::vector<Refusal> hand_rows = {
      {"other operands",
       [] {
         return observe({exp(parameter("a", "3")), exp(parameter("b", "3"))});
       }},
      {"operands in another place",
       [] {
         Tensor a = parameter("a", "3"), b = parameter("b", "3");
         return observe({a - b, b - a});
       }},
      {"another accumulator",
       [] {
         Tensor a = parameter("a", "3,2");
         return observe({einmax("ij=>i", a), einmin("ij=>i", a)});
       }},
      {"another precision of the result",
       [] {
         Tensor a = parameter("a", "3");
         return observe({cast(a, DType::f64), cast(a, DType::f16)});
       }},
      {"an observed result whose rows differ",
       [] {
         Tensor a = parameter("a", "3,2");
         return observe({einsum("ij=>ji", a), einsum("ij=>j|i", a)});
       }},
      {"a new value of a state whose rows differ",
       [] {
         Tensor a = parameter("a", "3,2");
         return observe(einsum("ij=>j|i", a)) & assign(state("s", {.output = {2, 3}}), einsum("ij=>ji", a));
       }},
  };
  expect_refused(merge_equal, hand_rows);
}

}  // namespace
}  // namespace caravan::optimize
