// How many bytes a kernel moves and how many operations it computes, estimated from its loops alone.
#pragma once

#include <cstdint>

#include "caravan/loop/loop.h"
#include "caravan/plan/kernel_cost.h"

namespace caravan::plan {

// Guards count as always true.
KernelCost cost(const loop::Module& module, const loop::Kernel& kernel);

// Of a collective on so many devices along its axis of the mesh.
struct ExchangeCost {
  int64_t bytes = 0;  // that a device has before it
  double sent = 0;    // bytes that a device sends to others, as few as possible: the mean, which need not be whole
};
ExchangeCost exchange_cost(const loop::Module& module, const loop::LibraryCall& call, int64_t devices);

// Operations of a program, estimated before it is planned: those of its bodies at every point.
int64_t operations(const ir::Program& program);

}  // namespace caravan::plan
