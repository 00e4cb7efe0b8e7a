// Rewrites vector and unrolled loops that contain other loops as what is executed. The iterations of such a loop, here
// called lanes, move inside: each group of statements gets its own loop over the lanes. A register that lives across
// such groups becomes a local with an element for each lane. The innermost loop over lanes becomes vector operations
// where possible.
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
// Consecutive statements without a loop between them form a run, and share one nest of loops over the lanes. A register
// that one run defines and another one uses becomes a local. A run inside an inner loop is computed in vectors of the
// target's width if it only loads neighbouring elements, adds, subtracts, multiplies and accumulates sums. Other runs
// are rare, or are left to the compiler's vectoriser.
//
// May run once loops have their kinds; verify() has checked that the iterations may run in lockstep. Promises the same
// bits, and that no vector or unrolled loop contains a loop. Refuses nothing.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module expand_lanes(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
