// `state := value` becomes a store to the state itself, where nothing needs the old value after it.
//
// May run after lowering; comes last, because it looks at who still reads the state. The value's only store must stand
// in or after the last kernel that reads the state; within its own kernel every read of the state stands before the
// store, in its loops, at the element that is stored. Promises the same bits. Refuses otherwise, and where the value is
// observed, read again or assigned twice: the assignment stays a copy.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module update_in_place(const loop::Module& module);

}  // namespace caravan::schedule
