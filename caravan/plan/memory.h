// Where buffers lie: one arena, in which buffers that are not needed at the same time share their place.
#pragma once

#include <functional>
#include <vector>

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::plan {

struct Placement {
  ir::BufferId buffer = -1;
  int64_t offset = 0, bytes = 0;
  int first = 0, last = 0;  // the kernels that use it; `last` is the number of kernels if it is needed after the step
};
struct MemoryPlan {
  std::vector<Placement> placements;
  int64_t bytes = 0;  // of the arena: the peak
};

// Of what kernels compute; states and data have memory of their own.
MemoryPlan plan_memory(const loop::Module& module, const Target& target);
// Of some buffers alone, as if there were no others.
MemoryPlan plan_memory(const loop::Module& module, const Target& target,
                       const std::function<bool(const ir::Buffer&)>& is_placed);

}  // namespace caravan::plan
