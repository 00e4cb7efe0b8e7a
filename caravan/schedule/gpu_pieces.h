// Makes explicit what a thread of a GPU loads and stores together: neighbours that a loop accesses, which is written
// out, become the elements of a piece (loop::Move).
//
//     for o < 384 grid:                              for o < 384 grid:
//       for n < 8 written out:                         piece0 = 8 of x[8*o]
//         r0 = x[8*o + n]                              for n < 8 written out:
//         r1 = tanh(r0)                 becomes          r0 = piece0[n]
//         y[8*o + n] = r1                                r1 = tanh(r0)
//                                                        piece1[n] = r1
//                                                      8 of y[8*o] = piece1
//
// Such loops are made by gpu_neighbours, and by map_to_grid, which lets a thread take several columns
// (gpu_columns.h). What a loop loads comes before it, and what it stores comes after it.
//
// Runs last, because the passes before it look at single elements. Promises the same values. Leaves alone
//   - loops that contain other loops or guards;
//   - elements that do not begin at a multiple of their number, or whose place the loop itself finds out;
//   - a buffer that the loop stores to and accesses at another place too.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module gpu_pieces(const loop::Module& module);

}  // namespace caravan::schedule
