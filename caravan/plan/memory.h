// The memory planner: places buffers in one arena. Buffers that are not live at the same time may share memory.
#pragma once

#include <functional>
#include <vector>

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::plan {

struct Placement {
  ir::BufferId buffer = -1;
  int64_t offset = 0, bytes = 0;
  // The first and last kernel that use it; `last` is the number of kernels if it is read after the run.
  int first = 0, last = 0;
};
struct MemoryPlan {
  std::vector<Placement> placements;  // in the order of first use
  int64_t bytes = 0;                  // size of the arena, which is the peak
  // The most bytes that are live in one kernel, with every buffer rounded up to the alignment. No arena can be smaller
  // if kernels run in this order.
  int64_t live = 0;
  double ratio() const { return live > 0 ? double(bytes) / double(live) : 1; }
};

// Places what kernels compute. States and data have memory of their own.
MemoryPlan plan_memory(const loop::Module& module, const Target& target);
// Places only the buffers for which `is_placed` holds.
MemoryPlan plan_memory(const loop::Module& module, const Target& target,
                       const std::function<bool(const ir::Buffer&)>& is_placed);

}  // namespace caravan::plan
