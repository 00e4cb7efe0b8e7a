// What is stored as bf16 or f16 is rounded once.
#include "caravan/schedule/round_once.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::schedule {
namespace {

TEST(RoundOnce, BeforeAndAfter) {
  expect_rewritten(round_once, {{"a cast before a store",
                                 [] { return observe(cast(exp(parameter("a", "3")), DType::bf16).named("y")); },
                                 {},
                                 R"(
kernel exp
  for o0 < 3:
    r0:f32 = a[o0]
    r1:f32 = exp(r0)
    exp[o0] = r1
kernel y
  for o0 < 3:
    r0:f32 = exp[o0]
    r1:f32 = cast r0 to bf16
    y[o0] = r0
)"}});
}

TEST(RoundOnce, Refusals) {
  expect_refused(
      round_once,
      {{"a store in f32", [] { return observe(exp(parameter("a", "3")).named("y")); }, {}},
       {"a cast of an f64, which rounds differently",
        [] { return observe(cast(param("a", Array(parse_shape("3"), DType::f64)), DType::bf16).named("y")); },
        {}}});
}

}  // namespace
}  // namespace caravan::schedule
