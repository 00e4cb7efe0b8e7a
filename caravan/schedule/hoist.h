// Moves values that do not change in a loop to just before it, outwards as far as they go.
//
// May run after lowering; comes after forward_stores, when the stores that nobody reads no longer hold loads back.
// Promises the same bits. Refuses values that name the loop's variable, a register that is defined or accumulated in
// the loop, or a buffer that the loop stores to; loads out of a loop that may run not at all; and to move anything out
// of an `If`, where a load is a guarded load.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module hoist(const loop::Module& module);

}  // namespace caravan::schedule
