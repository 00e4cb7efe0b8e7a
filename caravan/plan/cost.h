// How many bytes a kernel moves and how many operations it computes, estimated from its loops alone.
#pragma once

#include <cstdint>

#include "caravan/loop/loop.h"

namespace caravan::plan {

// Guards count as always true.
struct KernelCost {
  int64_t read_bytes = 0, written_bytes = 0;  // of the elements that are touched, each counted once
  int64_t flops = 0;                          // floating-point operations
};
KernelCost cost(const loop::Module& module, const loop::Kernel& kernel);

// Operations of a program, estimated before it is planned: those of its bodies at every point.
int64_t operations(const ir::Program& program);

}  // namespace caravan::plan
