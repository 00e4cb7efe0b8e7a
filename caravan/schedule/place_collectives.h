// Puts the collectives of a module, which exchange values between devices, among its kernels:
//
//     d_b, d_a, b, a        becomes        d_b, begin d_b, d_a, begin d_a, wait for d_b, b, wait for d_a, a
//
// Here the new value of b needs the sum of d_b over all devices, and that of a the sum of d_a. A collective begins
// directly after the last kernel that writes what it sends. Kernels that need what it gives, and those that must come
// after them, are put off as long as others can run; then a `wait` stands before the first of them. So the gradients of
// the last layers are exchanged while those of the first are computed, and updates come at the end.
//
// Small collectives of one kind along one axis of the mesh become one call: they are collected until they have
// kCombinedBytes (target/target.h), or until one of them is needed.
//
// Must run when kernels are final, and before copy_states, whose copies may need what a collective gives. Promises the
// same values: kernels keep their order where one reads or writes what another writes. No collective is left in
// Module::collectives, each has one wait, and its buffers are touched by no kernel in between. Refuses nothing; leaves
// a module without collectives as it is.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module place_collectives(const loop::Module& module);

}  // namespace caravan::schedule
