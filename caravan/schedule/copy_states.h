// Turns the assignments to states that are left into kernels that copy.
//
// May run when no later pass reads assignments. The pass update_in_place has made most values be stored in their state
// directly; this one makes a copy `state := value` for each of the others. Every value has a buffer of its own
// (copy_leaves), so the order of the copies does not matter. They come after all other kernels, which read the old
// values. Promises the same values in all states, and that no assignment is left. Refuses nothing: a value that is not
// computed, or has another precision than its state, is an error of the passes before (InternalError).
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module copy_states(const loop::Module& module);

}  // namespace caravan::schedule
