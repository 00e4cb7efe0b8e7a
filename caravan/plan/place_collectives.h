// Puts the collectives of a module between its kernels.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::plan {

// A collective begins directly after the last kernel that writes what it sends. Kernels that need what it gives, and
// those that must come after them, are put off as long as others can run; then a `wait` stands before the first of
// them. So the gradients of the last layers are exchanged while those of the first are computed, and updates come at
// the end. Small collectives of one kind become one call: they are collected until they have kCombinedBytes
// (target/target.h), or until one of them is needed. Must run when kernels are final, and before copy_states.
loop::Module place_collectives(const loop::Module& module);

}  // namespace caravan::plan
