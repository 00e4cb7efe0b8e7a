// Computes contractions (optimize/contraction.h) in tiles of rows and columns whose sums stay in vector registers:
//
//     for m < 1024:                      for m_block < 8:                                 a block for the cache
//       for n < 1024:                      for all rows and terms:  rows[..] = x[..]      packed in the order of use
//         r := 0                           for n_tile < 32:
//         for k < 384:          becomes      for all terms and columns:  columns[..] = w[..]
//           r += x[m, k] * w[k, n]           for m_tile < 16:
//         y[m, n] = r + b[n]                   sum0 := 0, sum1 := 0, ..                   8 x 2 vectors of 16
//                                              for k < 384:
//                                                sum0 += columns[k, 0..15] * rows[m_tile, k, 0], ..
//                                              y[.., ..] = sums + b[..]                   the epilogue
//
// An element that is loaded is used for a whole row or column of the tile. What is computed from the operands before
// they are multiplied is computed while they are packed, once; what is computed from the sums is computed tile by tile,
// while they are in registers or in the nearest cache. An operand that is a plain tensor is read in place where packing
// would not pay. The sums have the order that split_sums has stated: terms in order, within blocks of terms. If there
// are several blocks, a block of sums is kept in memory of the thread, and blocks of terms are added to it in order.
// The last one reads them there, adds its own, and hands the totals to the epilogue while they are in registers. Slices
// of terms (ContractionNest::slice) are computed side by side, and a second loop adds up their sums.
//
// Columns that are packed once for all blocks of rows, and are larger than the second-level cache, come from farther
// away whenever the next tile of columns begins. So each tile of rows prefetches a part of the next tile of columns, a
// few elements with each term: a processor waits for few dozens of cache lines at once.
//
// All blocks of rows, columns, batches and slices are iterations of one nest of loops, which threads share
// (parallelize.h). The more threads the target has, the narrower are the blocks of long sums (Tuning::blocks_a_thread).
// If terms have guards, as at the border of a padded convolution, the rows of a tile are those for which the guards are
// the same, such as the images of a batch at one place. Then a term counts for the whole tile, or is left out.
//
// Runs after fusion, when the epilogue is in the loops of the sum, and before split_loops. Leaves alone what is not a
// perfect nest around one such sum, within a kernel or within the loops of a group (group_kernels.h): that is
// vectorised like any other loop, in the same order of terms.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module tile_contractions(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
