// What a kernel moves and computes.
#pragma once

#include <cstdint>

namespace caravan::plan {

// Estimated from its loops (cost.h).
struct KernelCost {
  int64_t read_bytes = 0, written_bytes = 0;  // of the elements that are touched, each counted once
  int64_t flops = 0;                          // floating-point operations
};

}  // namespace caravan::plan
