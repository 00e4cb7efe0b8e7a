// Loops whose sums are split become loops over lanes, each with a partial sum of its own:
//
//     r = 0                                        r = 0
//     for o < 100 in partial sums:                 for l < 8:
//       r += w[100*i + o] * y[o]          becomes      p = 0
//                                                      for o < 12:
//                                                        p += w[100*i + 8*o + l] * y[8*o + l]
//                                                      if 3 - l >= 0:
//                                                        p += w[100*i + l + 96] * y[l + 96]
//                                                      r += p
// Where a sum has other loops around the split one, the lanes go around all of them, if nothing is left over.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::passes {

loop::Module split_loops(const loop::Module& module);

}  // namespace caravan::passes
