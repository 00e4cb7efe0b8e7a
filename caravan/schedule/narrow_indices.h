// How wide the indices of a kernel must be.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

// Are all numbers from which the kernel computes indices, and all sizes of its loops and buffers, below `most`?
bool has_narrow_indices(const loop::Module& module, const loop::Kernel& kernel, int64_t most);

}  // namespace caravan::schedule
