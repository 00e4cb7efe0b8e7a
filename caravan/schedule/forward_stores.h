// Replaces a load of an element that the same iteration has stored by the stored register. Then removes stores to
// buffers that nothing reads, everything that was computed only for them, and empty kernels.
//
// May run after lowering, and finds most opportunities after fuse. Promises the same bits in every buffer that is
// observed or assigned: where the store rounds, so does what takes the place of the load. Refuses to forward a register
// that storing converts to or from an integer, past a store to the same buffer at another offset, or out of the block
// that contains the store.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module forward_stores(const loop::Module& module);

}  // namespace caravan::schedule
