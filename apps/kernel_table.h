// What kernels do and where buffers lie, as tables.
#pragma once

#include <cstdint>
#include <string>

#include "caravan/backend/cc/device.h"
#include "caravan/loop/loop.h"

namespace caravan::app {

// An estimate from the loops alone; guards count as always true.
struct KernelCost {
  int64_t read_bytes = 0, written_bytes = 0;  // elements that are touched, each once
  int64_t flops = 0;                          // operations on floats, one each
};
KernelCost cost(const loop::Module& module, const loop::Kernel& kernel);

std::string kernel_table(const loop::Module& module);
std::string memory_table(const loop::Module& module, const cc::MemoryPlan& plan);

}  // namespace caravan::app
