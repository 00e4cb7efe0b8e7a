// Merges kernels whose outer loops run over the same rows, so that what one stores the next finds in a register.
//
// May run after lowering. A kernel is merged into the last one before it that it depends on, at depth d (their first d
// loops have equal extents), iff every element that both touch, and one of them writes, belongs to the same iteration
// of the shared loops in both: the offsets depend on the shared variables in the same way, and the rest of the offset
// stays within one row. Promises the same bits and the same stores.
// Refuses rows that do not line up; offsets through index tensors; to move a state's new value before a reader of the
// old one (it could not be stored in place any more); and kernels of more than kMostAccumulations.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::passes {

inline constexpr size_t kMostAccumulations = 64;  // C compilers take more than linear time over long functions

loop::Module fuse(const loop::Module& module);

}  // namespace caravan::passes
