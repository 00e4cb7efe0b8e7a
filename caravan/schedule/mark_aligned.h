// Marks the buffers that begin at a cache line and from which vectors are loaded (Kernel::aligned), so that the C
// compiler is told of it:
//
//     kernel y                                             kernel y
//       for o < 64:                                          aligned h
//         r0:f32x8 = h[8*o]                   becomes        for o < 64:
//         ..                                                   r0:f32x8 = h[8*o]
//                                                              ..
//
// Without AVX, an instruction that computes takes an operand from memory only if it is aligned (codegen/prelude/cpu.h).
//
// May run when the loads of kernels are final: buffers have become local arrays, and loops vectors. Promises to change
// nothing but these marks. Leaves out states and data, which may be memory of the user and begin anywhere, buffers of
// which only scalars are loaded, and all buffers of a target that does not place them at cache lines
// (Tuning::alignment).
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module mark_aligned(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
