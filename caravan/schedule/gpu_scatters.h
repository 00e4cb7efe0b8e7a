// Maps a sum into a table to the threads of a GPU (scatter_nest.h). For a large table, blocks of threads look for the
// indices of some rows (prelude/scatter.cuh). For 50,304 rows and 32,768 indices:
//
//     for v < 50304 rows:
//       for d < 768 columns:
//         r1 := 0
//         for b < 32768 terms:
//           r0 = ids[b]
//           if r0 - v >= 0 and v - r0 >= 0:
//             r1 += g[768*b + d]
//         y[768*v + d] += r1
//
// The number of blocks is the `chunk` of a grid loop around it, which has one iteration. Each of them takes as many
// neighbouring rows. It looks at the indices once, and adds for each row what belongs to it, in the order of b.
//
// Refuses what is no such sum, and elements that several iterations write.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

// For a kernel that only adds. True if it is now mapped to threads, which it is for a large table. The sums into a
// small one become a nest that map_to_grid maps.
bool gather_scatter(loop::Kernel& kernel, const Target& target);

}  // namespace caravan::schedule
