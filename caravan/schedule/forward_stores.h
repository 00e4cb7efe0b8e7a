// Loads of what was stored before in the same iteration become the stored register; then stores to buffers that nobody
// reads go, with all that served them alone, and kernels that are empty.
//
// May run after lowering; finds most after fuse. Promises the same bits in every buffer that is observed or assigned.
// Refuses to forward a register of another precision than the buffer's (storing it rounds), past a store to the same
// buffer at another offset, or out of the block in which the store stands.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module forward_stores(const loop::Module& module);

}  // namespace caravan::schedule
