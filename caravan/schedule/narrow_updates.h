// A loop that changes one element or slice of a state, and stores all others as they are, becomes the change alone:
//
//     for n < 512: for i: cache[n, i] = n == at ? key[i] : cache[n, i]     becomes     for i: cache[at, i] = key[i]
//
// So `update(state, index, value)` costs as much as the slice has elements, not the state.
//
// May run after update_in_place, which lets the value be stored in its state. Promises the same bits. Refuses loops
// that store anything else, and an index that the program does not limit to the iterations of the loop.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module narrow_updates(const loop::Module& module);

}  // namespace caravan::schedule
