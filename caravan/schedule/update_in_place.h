// Replaces an assignment `state := value` by a store directly to the state, if nothing reads the old value afterwards.
//
// May run after lowering. It comes after the passes that remove reads of the state. The value must have a single store,
// in or after the last kernel that reads the state. If that kernel itself reads the state, it must do so before the
// store, in the same loops, and only the element that is stored. What reads the value reads the state then. Promises
// the same bits. Refuses otherwise, and if the value is observed or assigned twice: then the assignment stays a copy.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module update_in_place(const loop::Module& module);

}  // namespace caravan::schedule
