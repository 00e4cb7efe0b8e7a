// What is left of the assignments of states becomes kernels that copy.
//
// May run when no later pass looks at assignments: update_in_place stores most values where they belong, and this makes
// `state := value` for the others. Every value is a buffer of its own by then, so the order of the copies does not
// matter; they come after all other kernels, which read the old values.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module copy_states(const loop::Module& module);

}  // namespace caravan::schedule
