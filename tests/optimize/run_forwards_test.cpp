// Sums run in the order of memory.
#include "caravan/optimize/run_forwards.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::optimize {
namespace {

TEST(RunForwards, BeforeAndAfter) {
  const std::vector<Rewrite> rows = {
      {"a sum that is read backwards", [] { return observe(einsum("i, -j =>", parameter("a", "4,3")).named("y")); },
       R"(
y += a[i, 2 - j]   for i < 4, j < 3
)",
       R"(
y += a[i, j]   for i < 4, j < 3
)"},
      {"of a copy, as what it copies is read",
       [] { return observe(sum(einsum("i, -j => i, j", parameter("a", "4,3")).named("t")).named("y")); },
       R"(
t[i, j] += a[i, 2 - j]   for i < 4, j < 3
y += t[o0, o1]   for o0 < 4, o1 < 3
)",
       R"(
t[i, j] += a[i, 2 - j]   for i < 4, j < 3
y += t[o0, 2 - o1]   for o0 < 4, o1 < 3
)"},
      {"both operands, and the largest",
       [] { return observe(einmax("i, -j; -j => i", parameter("a", "4,3"), parameter("b", "3")).named("y")); },
       R"(
y[i] max= a[i, 2 - j] * b[2 - j]   for i < 4, j < 3
)",
       R"(
y[i] max= a[i, j] * b[j]   for i < 4, j < 3
)"},
  };
  expect_rewritten(run_forwards, rows);
}

TEST(RunForwards, MustRefuse) {
  const std::vector<Refusal> hand_rows = {
      {"forwards already", [] { return observe(sum(parameter("a", "4,3"))); }},
      {"another operand is read forwards",
       [] { return observe(einsum("i, -j; j => i", parameter("a", "4,3"), parameter("b", "3"))); }},
      {"the axis is written", [] { return observe(einsum("i, -j => i, j", parameter("a", "4,3"))); }},
      {"the first winner counts", [] { return observe(argmax("i, -j => i", parameter("a", "4,3"))); }},
      {"a copy of the other direction cancels it",
       [] { return observe(einsum("-j =>", einsum("-i => i", parameter("a", "3")))); }},
  };
  expect_refused(run_forwards, hand_rows);
}

}  // namespace
}  // namespace caravan::optimize
