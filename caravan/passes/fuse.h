// Merges kernels whose outer loops run over the same rows, so that what one stores the next finds in a register.
//
// May run after lowering. Two kernels are merged at depth d (their first d loops have equal extents) iff every element
// that both touch, and one of them writes, belongs to the same iteration of the shared loops in both: the offsets depend
// on the shared variables in the same way, and the rest of the offset stays within one row. Kernels between them must
// not touch what they write, nor write what they touch.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::passes {

loop::Module fuse(const loop::Module& module);

// Loads of what the same block has just stored become the stored register; stores that nobody reads go, and
// definitions that nobody uses with them.
loop::Module forward_stores(const loop::Module& module);

// `state := value` becomes a store to the state itself where the value's kernel is the last to read the old state, or reads it only at
// the element it is about to store. The update is refused (the assignment stays a copy) otherwise.
loop::Module update_in_place(const loop::Module& module);

}  // namespace caravan::passes
