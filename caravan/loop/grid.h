// What a launch of a kernel on a GPU needs.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::loop {

inline constexpr int64_t kAcrossBytes = 8192;  // of shared memory, for totals across lanes: 8 for each thread

// How many groups of threads have work: the iterations of the grid loops together, the tiles of the product times their
// slices, or the blocks of rows of attention; 0 if there is none of these.
int64_t grid_iterations(const Kernel& kernel);
int64_t blocks_of(const Kernel& kernel, int threads);  // that the kernel has work for, if a block has so many threads
int64_t shared_bytes(const Kernel& kernel);            // of a block
int64_t cluster_of(const Kernel& kernel);  // how many blocks must be started together: slices of its product

}  // namespace caravan::loop
