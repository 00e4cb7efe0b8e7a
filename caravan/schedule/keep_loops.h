// Marks loops of sums that must not be unrolled (Unroll::never), because GCC computes a wrong sum when it unrolls them.
//
//     for (h = 0; h < 4; ++h)
//       for (w = 0; w < 4; ++w) sum += x[4*h - w + 3];      /* 1, 2, ..., 16: 136, but 232 by GCC 12.2 at -O3 */
//
// GCC unrolls the loop over w and makes vectors of the four additions. It reads the four elements in the order of
// memory, although they were to be added backwards, and then takes the wrong one of the four partial results for the
// last: elements are counted twice, or at best added in another order (GCC bug 110381, in GCC 8 to 13.1). Sums of
// integers are not affected, nor is a loop that was not unrolled, nor are elements that are added in the order of
// memory.
//
// Marked are serial loops inside another loop of the same floating-point sum, if an operand is not read in the order of
// memory: backwards (x[4*h - w]), or with a larger stride in an inner loop than in an outer one (x[16*h + i + 4*j] with
// j inside of i).
//
// May run when loops have their final bodies and kinds. Promises to change nothing but For::unroll, and so no bit.
// Leaves alone the outermost loop of a sum, sums of integers, loops of other kinds, which the compiler does not unroll
// by its own choice, and accumulators that are vectors already or elements of a local array.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module keep_loops(const loop::Module& module);

}  // namespace caravan::schedule
