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
// element. If the kernel has set the whole table to 0 before, it now stores the sums, in the order of the table in
// memory, so that the update of the table can be fused with it (gather_scatters). For a large table, blocks of threads
// look for the indices of some rows (prelude/scatter.cuh). For 50,304 rows and 32,768 indices:
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
// Refuses nests with other statements, indices without a known range, and elements that several iterations write.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

// May run after lowering, before kernels are fused. Changes kernels that fill a small table and then add to it.
loop::Module gather_scatters(const loop::Module& module, const Target& target);

// For a kernel that only adds. True if it is now mapped to threads, which it is for a large table.
bool gather_scatter(loop::Kernel& kernel, const Target& target);

}  // namespace caravan::schedule
