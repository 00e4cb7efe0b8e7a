// Merges kernels whose outer loops run over the same rows, so that what one stores the next finds in a register or
// nearby: an epilogue with its product, the parts of a softmax or a norm, an update with its gradient.
//
// May run after lowering. A kernel is merged into the last one before it that it depends on, or else into one of the
// last that read the same rows, if that may stand before all between them; then both together likewise. They share as
// many outer loops of equal extents as are legal: every element that both touch, and one of them writes, belongs to the
// same iteration of the shared loops in both, so the offsets depend on the shared variables in the same way and the
// rest of the offset stays within one row. Promises the same bits and the same stores. Refuses rows that do not line
// up; offsets through index tensors; to leave more than one loop of either within a shared row (a product would be
// streamed again for each), unless both share all their outer loops; rows that run at once, being neighbours in memory,
// with rows that have such neighbours inside; a function of the rows of a split sum, which run one by one; to move a
// state's new value before a reader of the old one or beside one of other rows (it could not be stored in place any
// more); and kernels of more than kMostAccumulations.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

inline constexpr size_t kMostAccumulations = 64;  // C compilers take more than linear time over long functions
inline constexpr size_t kMostCandidates = 4;      // readers of the same rows that are tried

loop::Module fuse(const loop::Module& module);

}  // namespace caravan::schedule
