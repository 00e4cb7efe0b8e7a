// The processor as a device: programs become C, C becomes machine code, state lives in memory of its own precision.
#pragma once

#include "caravan/backend/backend.h"
#include "caravan/backend/cc/compile.h"

namespace caravan::cc {

struct DeviceOptions {
  uint64_t seed = 0;
  int threads =
      0;  // at most so many run a step; 0: as many as there are processors that it may use (base/processors.h)
  CompilerOptions compiler;
  int64_t memory_limit = 0;  // bytes of one program's buffers; 0: none. A plan that needs more is refused at once
};
std::unique_ptr<backend::Device> make_device(const DeviceOptions& options);

// Makes memory of the caller's a state of the device, which must be one of make_device's: programs read and write it
// there. It needs no more alignment than its elements.
void lend(backend::Device& device, const std::string& state, const Shape& shape, DType dtype, void* memory);

}  // namespace caravan::cc
