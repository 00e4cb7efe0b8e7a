// Partial sums as plain C likes them: the loop over the lanes innermost, so that a compiler makes vectors of it.
//
//     for l < 8:                                   p[0..7] = 0
//       p = 0                                      for o < 12:
//       for o < 12:                  becomes         for l < 8:
//         p += w[8*o + l] * y[8*o + l]                 p[l] += w[8*o + l] * y[8*o + l]
//       r += p                                     for l < 8:
//                                                    r += p[l]
//
// In the IR that is a change of the loop's kind alone; the bits stay.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module lanes_inside(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
