// Lets threads share a sum that is added into memory through an index tensor, such as the gradient of an embedding
// table:
//
//     for b < 1024:                                       for d_block < 12:
//       r0 = ids[b]                                         for b < 1024:
//       for d < 384:                         becomes          r0 = ids[b]
//         if r0 >= 0 and 64 - r0 >= 0:                        if r0 >= 0 and 64 - r0 >= 0:
//           y[384*r0 + d] += g[384*b + d]                       for d < 32:
//                                                                 y[384*r0 + 32*d_block + d] += g[384*b + 32*d_block + d]
//
// Iterations of b may add to the same row of the table, so they must stay in order. Blocks of columns have no element
// in common, and parallelize.h can give them to threads. Each element is added up in the same order as before, so no
// bit changes. A condition that is the same for all columns is asked once for all of them.
//
// Runs before loops are vectorised. Refuses nests with other statements, those with less work than a parallel loop has,
// and those whose outermost loop can be shared as it is.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module share_scatters(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
