// Lets a thread of a GPU take several neighbours in memory at a time, which it loads and stores together:
//
//     for b < 4096 grid:                                 for b < 4096 grid:
//       for o < 3072 grid:                  becomes        for o < 384 grid:
//         y[3072*b + o] = tanh(x[3072*b + o])                for v < 8:
//                                                              y[3072*b + 8*o + v] = tanh(x[3072*b + 8*o + v])
//
// It cuts the innermost grid loop of kernels in which a thread computes an element, and the innermost loops that lanes
// share. The loop over neighbours is unrolled, and what it accesses at neighbouring places becomes one access, of 16
// bytes if possible (gpu_pieces.h).
//
// May run when loops have been shared by threads (map_to_grid). Promises the same values; a sum that lanes share is
// added in another order, which depends on the sizes alone. Refuses loops
//   - that contain other loops or guards, or whose elements do not come in pieces that begin at multiples of their
//     size;
//   - that access memory with another stride than 1 or 0, or store to one place;
//   - that load and store elements of one buffer, unless each is loaded before it is stored;
//   - that are so short that threads would have nothing to do.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module gpu_neighbours(const loop::Module& module, const Target& target);

// Do `n` neighbours along a loop begin at a multiple of their size, if its variable is a multiple of n?
bool begins_piece(const loop::Term& offset, loop::Variable along, int64_t n);

}  // namespace caravan::schedule
