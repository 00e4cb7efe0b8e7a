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
// This pass changes only the kind of the loop. Promises the same bits.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module lanes_inside(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
