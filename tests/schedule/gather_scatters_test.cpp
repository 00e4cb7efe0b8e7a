// Sums into small tables, as sums that threads can share. It runs before kernels are fused.
#include "caravan/schedule/gather_scatters.h"

#include <gtest/gtest.h>

#include "caravan/plan/plan.h"
#include "schedule/for_gpu.h"

namespace caravan::schedule {
namespace {

const LoopPass kPass = [](const loop::Module& module) { return gather_scatters(module, gpu_target()); };

TEST(GatherScatters, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {{"the table is stored in its own order, so that its update can follow the sum",
                                          table_gradient,
                                          {},
                                          R"(
kernel y
  for d0 < 64:
    for v < 28:
      r4:f32 := 0
      for b0 < 1024:
        r1:i32 = data[b0]
        r2:i64 = cast r1 to i64
        if r2 - v >= 0 and v - r2 >= 0:
          r3:f32 = g[64*b0 + d0]
          r4 += r3
      y[28*d0 + v] = r4
)",
                                          R"(
kernel y
  for e < 1792:
    r0:f32 = 0
    y[e] = r0
  for b0 < 1024:
    for d0 < 64:
      r1:i32 = data[b0]
      r2:i64 = cast r1 to i64
      if r2 >= 0 and 27 - r2 >= 0:
        r3:f32 = g[64*b0 + d0]
        y[28*d0 + r2] += r3
)"}};
  expect_rewritten(kPass, rows, [](const Program& program) { return lowered_for_gpu(program); });
}

TEST(GatherScatters, TheUpdateOfTheTableIsComputedWithItsGradient) {
  const Tensor table = param("table", Array(parse_shape("28 -> 10")));
  const ir::Program step = to_ir(train_step(sum(square(gather(table, indices(64)))), sgd({.lr = 0.1})));
  EXPECT_EQ(plan::make_plan(step, gpu_target()).scheduled.kernels.size(), 3u);
  EXPECT_EQ(plan::make_plan(step, gpu_target(), {.off = {"gather_scatters"}}).scheduled.kernels.size(), 5u);
}

TEST(GatherScatters, MustRefuse) {
  const Refusal rows[] = {
      {"a large table", [] { return observe(scatter_add(parameter("g", "8192|64"), indices(8192), 1000)); }},
      {"a sum", [] { return observe(einsum("i,j => i", parameter("a", "64,15"))); }},
      {"a copy into a part of a tensor", [] { return observe(einsum("i^1,j => 1^i,j", parameter("a", "8,16"))); }},
  };
  for (const Refusal& row : rows) {
    const loop::Module given = lowered_for_gpu(row.program());
    EXPECT_EQ(kPass(given).kernels, given.kernels) << row.reason;
  }
}

}  // namespace
}  // namespace caravan::schedule
