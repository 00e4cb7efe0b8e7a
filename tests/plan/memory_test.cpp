// Where buffers lie.
#include "caravan/plan/memory.h"

#include <gtest/gtest.h>

#include "caravan/plan/plan.h"
#include "caravan/schedule/order_stages.h"
#include "pass_table.h"

namespace caravan::plan {
namespace {

TEST(MemoryPlan, BuffersThatAreNeededTogetherDoNotOverlap) {
  Tensor x = parameter("x", "7"), w = parameter("w", "7->7");
  Tensor h = x;
  for (int k = 0; k < 6; ++k) h = sin(w(h));
  const Plan made = make_plan(to_ir(train_step(sum(h), sgd({.lr = 0.1}))), host(), {.off = {"fuse"}});
  const loop::Module& module = made.scheduled;
  const MemoryPlan& plan = made.memory;
  int64_t total = 0;
  for (const auto& a : plan.placements) {
    total += a.bytes;
    EXPECT_EQ(a.offset % 64, 0);
    EXPECT_LE(a.offset + a.bytes, plan.bytes);
    for (const auto& b : plan.placements) {
      if (&a == &b || a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
          << module.buffers[size_t(a.buffer)].name << " and " << module.buffers[size_t(b.buffer)].name;
    }
  }
  for (int k = 0; k < int(module.kernels.size()); ++k) {
    int64_t live = 0;
    for (const auto& a : plan.placements)
      if (a.first <= k && k <= a.last) live += (a.bytes + 63) / 64 * 64;
    EXPECT_LE(live, plan.live);
  }
  EXPECT_GE(plan.bytes, plan.live);
  EXPECT_GT(plan.placements.size(), 10u);
  EXPECT_LT(plan.bytes, int64_t(plan.placements.size()) * 64 * 4) << "places are used again";
  EXPECT_GT(total, 0);
}

// What is computed again is not moved to where it was computed first: fusion would otherwise do so, because both read
// the same elements.
TEST(MemoryPlan, MeetsALimit) {
  Tensor x = parameter("x", "64|16"), w = parameter("w", "16->16");
  Tensor h = x;
  for (int k = 0; k < 6; ++k) h = tanh(einsum("b|i; i->o => b|o", h, w));
  const ir::Program program = to_ir(train_step(sum(h), sgd({.lr = 0.1})));
  const int64_t needed = make_plan(program, host()).memory.bytes;
  const Plan less = make_plan(program, host(), {.memory_limit = needed * 3 / 4});
  EXPECT_LE(less.memory.bytes, needed * 3 / 4);
  EXPECT_EQ(make_plan(program, host(), {.memory_limit = needed}).memory.bytes, needed);
  EXPECT_THROW(make_plan(program, host(), {.memory_limit = 1}), StateError);
}

// On a GPU the kernels of a stage run at the same time: what one of them reads for the last time may not be
// overwritten by another.
TEST(MemoryPlan, BuffersOfOneStageDoNotOverlap) {
  const Tensor p = exp(parameter("a", "64")).named("p"), q = sin(parameter("b", "64")).named("q");
  const Tensor of_p = sum(p).named("of_p"), r = cos(q).named("r"), of_r = sum(r).named("of_r");
  Target target = gpu_target();
  target.gpu.few_blocks = 0;                                                             // nothing is delayed
  loop::Module module = schedule::order_stages(lowered(observe({of_p, of_r})), target);  // p q, of_p r, of_r
  auto place = [](const loop::Module& of, const std::string& name) {
    for (const Placement& placement : plan_memory(of, gpu_target()).placements)
      if (of.buffers[size_t(placement.buffer)].name == name) return placement;
    ADD_FAILURE() << "there is no buffer " << name;
    return Placement{};
  };
  EXPECT_NE(place(module, "p").offset, place(module, "r").offset) << loops(module);
  for (loop::Kernel& kernel : module.kernels) kernel.grid.stage = -1;  // one after the other, as on a processor
  EXPECT_EQ(place(module, "p").offset, place(module, "r").offset) << loops(module);
}

}  // namespace
}  // namespace caravan::plan
