// Turns a sum that is added into memory through an index tensor, such as the gradient of an embedding table, into sums
// that threads can share:
//
//     for b < 1024:                                       for v < 28:
//       r0 = ids[b]                                         for d < 64:
//       if r0 >= 0 and 27 - r0 >= 0:                          r1 := 0
//         for d < 64:                         becomes         for b < 1024:
//           y[64*r0 + d] += g[64*b + d]                         r0 = ids[b]
//                                                               if r0 - v >= 0 and v - r0 >= 0:
//                                                                 r1 += g[64*b + d]
//                                                             y[64*v + d] += r1
//
// Every element of the table looks at all indices, which is little work for small tables, and no two threads add to one
// element. Refuses nests with other statements, indices without a known range, and tables that are too large for it.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

void gather_scatter(loop::Kernel& kernel, const Target& target);

}  // namespace caravan::schedule
