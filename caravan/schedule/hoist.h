// Loop-invariant code motion: moves a value that does not change in a loop before the loop, out of as many loops as
// possible.
//
// May run after lowering. It comes after forward_stores, which removes stores that would keep loads in a loop. Promises
// the same bits. Refuses values that read the loop's variable, a register that is defined or accumulated in the loop,
// or a buffer that the loop stores to; loads from a loop that may have no iterations; and to move anything out of an
// `If`, because the condition may keep a load in range.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module hoist(const loop::Module& module);

}  // namespace caravan::schedule
