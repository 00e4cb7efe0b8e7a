// Marks the loops over the partial sums of a split sum as vector loops. Then expand_lanes moves them innermost, where
// the compiler of plain C vectorises them.
//
//     for l < 8:                                   p[0..7] = 0
//       p = 0                                      for o < 12:
//       for o < 12:                  becomes         for l < 8:
//         p += w[8*o + l] * y[8*o + l]                 p[l] += w[8*o + l] * y[8*o + l]
//       r += p                                     for l < 8:
//                                                    r += p[l]
//
// May run after split_loops, which makes these loops, and before expand_lanes, for C without vector types. Promises the
// same bits, and to change only the kind of the loop. Leaves alone loops of another number of iterations than a sum has
// lanes (Tuning::sum_lanes), loops whose iterations do not read neighbours in memory, such as those over the blocks of
// a sum, and loops whose iterations cannot run in lockstep.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module lanes_inside(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
