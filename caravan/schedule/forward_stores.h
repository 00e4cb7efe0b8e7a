// Replaces a load of an element that the same iteration has stored by the stored register. Then removes stores to
// buffers that nothing reads, everything that was computed only for them, and empty kernels.
//
// May run after lowering, and finds most opportunities after fuse. Promises the same bits in every buffer that is
// observed or assigned. Refuses to forward a register whose precision is not the buffer's (the store rounds it), past a
// store to the same buffer at another offset, or out of the block that contains the store.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module forward_stores(const loop::Module& module);

}  // namespace caravan::schedule
