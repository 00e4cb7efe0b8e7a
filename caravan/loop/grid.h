// What a launch of kernels on a GPU needs.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::loop {

// How many groups of threads have work: the iterations of the grid loops together, the tiles of the product times their
// slices, or the blocks of rows of attention; 0 if there is none of these.
int64_t grid_iterations(const Kernel& kernel);
int64_t blocks_of(const Kernel& kernel, int threads);  // that the kernel has work for, if a block has so many threads
int64_t cluster_of(const Kernel& kernel);  // how many blocks must be started together: slices of its product

// What the blocks of a launch have, each of which works for one of its kernels: as much of everything as the kernel
// needs that needs most of it.
struct Launch {
  int threads = 0, resident = 0;          // as in Grid
  int64_t shared_bytes = 0, cluster = 1;  // blocks of a cluster are started together and see each other's shared memory

  void add(const Kernel& kernel);
  int64_t blocks(const Kernel& kernel) const;  // that work for this kernel: whole clusters
};

}  // namespace caravan::loop
