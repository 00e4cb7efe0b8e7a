// Where buffers lie.
#include "caravan/plan/memory.h"

#include <gtest/gtest.h>

#include "caravan/plan/plan.h"
#include "pass_table.h"

namespace caravan::plan {
namespace {

TEST(MemoryPlan, BuffersThatAreNeededTogetherDoNotOverlap) {
  Tensor x = leaf("x", "7"), w = leaf("w", "7->7");
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
  EXPECT_GT(plan.placements.size(), 10u);
  EXPECT_LT(plan.bytes, int64_t(plan.placements.size()) * 64 * 4) << "places are used again";
  EXPECT_GT(total, 0);
}

}  // namespace
}  // namespace caravan::plan
