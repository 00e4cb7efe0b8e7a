// A max comes from the search for its position.
#include "caravan/schedule/keep_best.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "caravan/backend/interp/device.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "caravan/schedule/hoist.h"
#include "caravan/schedule/merge_values.h"
#include "compiled_device.h"
#include "pass_table.h"
#include "temporary_folder.h"

namespace caravan::schedule {
namespace {

Tensor max_of(const Tensor& x) { return einmax("2*o + k => o", x, {{"k", 2}}).named("y"); }
Tensor place_of(const Tensor& x) { return argmax("2*o + k => o", x, {{"k", 2}}).named("n"); }
const std::vector<LoopPass> kBefore = {fuse, forward_stores, hoist, merge_values};

TEST(KeepBest, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"the max of windows",
       [] {
         const Tensor x = parameter("x", "6");
         return observe({max_of(x), place_of(x)});
       },
       kBefore, R"(
kernel n
  for o < 3:
    r3:f32 := -inf
    r4:i32 := -1
    for k < 2:
      r2:f32 = x[2*o + k]
      r3, r4 argmax= r2 at k
    y[o] = r3
    r5:i64 = cast r4 to i64
    n[o] = r5
)"},
      {"the min behind the search, of what is computed",
       [] {
         const Tensor x = exp(parameter("x", "3,4"));
         return observe({argmin("b, k => b", x).named("n"), einmin("b, k => b", x).named("y")});
       },
       kBefore, R"(
kernel y
  for o0 < 3:
    for o1 < 4:
      r0:f32 = x[4*o0 + o1]
      r1:f32 = exp(r0)
      exp[4*o0 + o1] = r1
    r3:f32 := inf
    r4:i32 := -1
    for k < 4:
      r2:f32 = exp[4*o0 + k]
      r3, r4 argmin= r2 at k
    r5:i64 = cast r4 to i64
    n[o0] = r5
    y[o0] = r3
)"},
  };
  expect_rewritten(keep_best, rows);
}

TEST(KeepBest, MustRefuse) {
  const std::vector<LoopRefusal> rows = {
      {"the min of a search for the max",
       [] {
         const Tensor x = parameter("x", "3,4");
         return observe({einmin("b, k => b", x), argmax("b, k => b", x)});
       },
       kBefore},
      {"other elements",
       [] {
         const Tensor x = parameter("x", "3,4"), z = parameter("z", "3,4");
         return observe({einmax("b, k => b", x), argmax("b, k => b", x + z)});
       },
       kBefore},
      {"another order",
       [] {
         const Tensor x = parameter("x", "3,4,5");
         return observe({einmax("b, k, l => b", x), argmax("b, l, k => b", einsum("b, k, l => b, l, k", x))});
       },
       kBefore},
  };
  expect_refused(keep_best, rows);
}

// To the bit, also where the largest is NaN, one of two zeros, one of two equal numbers or -inf.
TEST(KeepBest, NanZerosAndTies) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor x = param("x", Array(parse_shape("2,8"), {-0.0, 0, 0, -0.0, nan, 1, 1, nan,  //
                                                         nan, nan, -inf, -inf, 3, 3, -1, inf}));
  const Tensor y = einmax("b, 2*o + k => b, o", x, {{"k", 2}}), z = einmax("b, o + k => b, o", x, {{"k", 3}});
  const Tensor dy = tensor(Array(parse_shape("2,4"), {1, 2, 3, 4, 5, 6, 7, 8}));
  const Task task = task_of(observe({y, z, grad(dot(dy, y), x), grad(sum(z * 3), x)}));
  const Outcome expected = run_on(*interp::make_device(0), task);
  const TemporaryFolder cache;
  cc::DeviceOptions options;
  options.compiler.cache = cache.path;
  for (const char* off : {"", "keep_best", "narrow_positions"}) {
    const std::vector<std::string> left_out = *off ? std::vector<std::string>{off} : std::vector<std::string>{};
    const Outcome actual = run_on(*compiled_device(options), task, 1, {left_out});
    for (size_t o = 0; o < expected.observed.size(); ++o)
      for (int64_t e = 0; e < expected.observed[o].size(); ++e) {
        const double a = expected.observed[o].at(e), b = actual.observed[o].at(e);
        EXPECT_TRUE(std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b))
            << "without `" << off << "`: " << b << " is not " << a << ", element " << e << " of " << o;
      }
  }
}

}  // namespace
}  // namespace caravan::schedule
