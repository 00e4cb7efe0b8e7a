// The processor as a device: programs become C, C becomes machine code, state lives in memory of its own precision.
#pragma once

#include <functional>

#include "caravan/backend/backend.h"
#include "caravan/backend/cc/compile.h"
#include "caravan/passes/pipeline.h"

namespace caravan::cc {

struct DeviceOptions {
  uint64_t seed = 0;
  int threads =
      0;  // at most so many run a step; 0: as many as there are processors that it may use (base/processors.h)
  CompilerOptions compiler;
  passes::Options passes;
  int64_t memory_limit = 0;  // bytes of one program's buffers; 0: none. A plan that needs more is refused at once
};
std::unique_ptr<backend::Device> make_device(const DeviceOptions& options);

// Makes memory of the caller's a state of the device, which must be one of make_device's: programs read and write it
// there. It needs no more alignment than its elements.
void lend(backend::Device& device, const std::string& state, const Shape& shape, DType dtype, void* memory);

// Where each buffer of a module lies in the one arena, and from which kernel to which it is needed.
struct Placement {
  ir::BufferId buffer = -1;
  int64_t offset = 0, bytes = 0;
  int first = 0, last = 0;  // kernels
};
struct MemoryPlan {
  std::vector<Placement> placements;
  int64_t bytes = 0;  // of the arena: the peak
};
MemoryPlan plan_memory(const loop::Module& module);
// Of the buffers of some kind alone, as if there were no others.
MemoryPlan plan_memory(const loop::Module& module, const std::function<bool(const ir::Buffer&)>& is_placed);

}  // namespace caravan::cc
