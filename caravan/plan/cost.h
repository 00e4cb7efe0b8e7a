// What a kernel moves and computes, estimated from its loops alone.
#pragma once

#include <cstdint>

#include "caravan/loop/loop.h"

namespace caravan::plan {

// Guards count as always true.
struct KernelCost {
  int64_t read_bytes = 0, written_bytes = 0;  // elements that are touched, each once
  int64_t flops = 0;                          // operations on floats, one each
};
KernelCost cost(const loop::Module& module, const loop::Kernel& kernel);

}  // namespace caravan::plan
