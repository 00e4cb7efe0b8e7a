// Vector and unrolled loops around other loops are written down as what runs: the loops over their iterations, the
// lanes, go inside, what a lane keeps meanwhile becomes an element of a local, and the innermost of them a vector where
// it can.
//
//     for o < 16 vector:                        local sum:f32[16] in registers
//       r0 := 0                                 for o < 16 as vectors:
//       for i < 100:                              r3 = 0
//         r1 = w[16*i + o]           becomes      sum[o] = r3
//         r2 = mul(x[i], r1)                    for i < 100:
//         r0 += r2                                for o_vector < 2 written out:
//       y[o] = r0                                   r1:f32x8 = w[16*i + 8*o_vector]
//                                                   r2:f32x8 = mul(x[i], r1)
//                                                   sum[8*o_vector] += r2
//                                               for o < 16 as vectors:
//                                                 y[o] = sum[o]
//
// Statements between two inner loops, a run, share one nest of loops over the lanes. A register that one run defines
// and another one uses becomes a local with an element for each lane. Of a run inside an inner loop that only loads
// neighbours, adds, subtracts, multiplies and sums, registers become vectors as wide as the target's; the compiler
// finds the others itself, or they are rare.
//
// May run once loops have their kinds, which verify() holds to be able to run side by side. Promises the same bits, and
// that no vector or unrolled loop has a loop inside. Refuses nothing.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module expand_lanes(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
