// Turns the order of sums (ir::SumOrder) into loops. Lanes become a loop with a partial sum in each iteration:
//
//     r = 0                                        r = 0
//     for o < 100 in partial sums:                 for l < 8:
//       r += w[100*i + o] * y[o]          becomes      p = 0
//                                                      for o < 12:
//                                                        p += w[100*i + 8*o + l] * y[8*o + l]
//                                                      if 3 - l >= 0:
//                                                        p += w[100*i + l + 96] * y[l + 96]
//                                                      r += p
// If a sum has other loops around that one, the loop over lanes goes around all of them, provided that the number of
// lanes divides the extent.
//
// Blocks become a loop over blocks with a sum for each. If the block size does not divide the extent, the remainder is
// one more, shorter block:
//
//     r = 0                                        r = 0
//     for b < 1003 in blocks of 50:                for b_block < 20:
//       r += x[64*b + c]                 becomes     p = 0
//                                                    for b < 50:
//                                                      p += x[3200*b_block + 64*b + c]
//                                                    r += p
//                                                  p = 0
//                                                  for b < 3:
//                                                    p += x[64*b + c + 64000]
//                                                  r += p
// In a sum with both, each lane has its own blocks.
//
// Must run, after all passes that look for sums as single loops (pick_terms, tile_contractions, transpose_rows),
// and before vectorize, which makes vectors of the loops over lanes. Promises that every term is added in the order
// that was stated, and that no loop has one afterwards: For::lanes is 0 and For::blocks empty. Refuses nothing. Loops
// without a stated order are unchanged.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module split_loops(const loop::Module& module);

}  // namespace caravan::schedule
