// Shares the iterations of kernels among the threads of a GPU. It takes the place that vectorize and parallelize have
// on a processor.
//
//     kernel softmax                                       kernel softmax
//       for b < 4096:                                        groups of 32 threads
//         r0 := 0                                            for b < 4096 grid:
//         for i < 65:                           becomes        r0 := 0
//           r0 += exp(x[65*b + i])                             for i < 65 lanes:
//         for i < 65:                                            r0 += exp(x[65*b + i])
//           y[65*b + i] = exp(x[65*b + i]) / r0                r1 = sum across lanes of r0
//                                                              for i < 65 lanes:
//                                                                y[65*b + i] = exp(x[65*b + i]) / r1
//
// * Grid loops. Outer loops whose iterations are independent become grid loops: a group of threads takes an
//   iteration of all of them together. A loop that must run in order, such as the one over the elements that are
//   added into a table, changes places with an independent loop inside of it.
// * Lane loops. The loops inside of them are shared by the lanes of a group, if there are too few iterations of grid
//   loops for all threads of the GPU, or if neighbouring iterations of an inner loop read neighbouring elements. A sum
//   then has a partial sum for each lane, and these are added in a fixed order, so the bits are the same in every run.
//   What stands beside the loops is computed by every lane, and stored by one.
// * Layout. The lanes of a group are neighbouring threads where inner loops read neighbouring elements.
//   Where grid loops do, neighbouring threads belong to neighbouring groups (`Grid::spread`).
// * Columns. Where many columns are added up, a thread takes several neighbouring ones (gpu_columns.h).
//
// May run when loops have their final bodies. A kernel with several outer loops becomes several kernels, because
// only the end of a kernel lets all groups wait for each other. Promises that every kernel with statements has a Grid;
// that no element is written by two groups; and the same values, but for sums that lanes share or that a block of
// threads computes in tiles, which are added in another order. That order depends on the sizes and on the target alone.
//
// What cannot be shared is run by one thread. Lanes do not share loops of fewer than Gpu::least_shared iterations;
// loops whose iterations depend on each other; the search for a position (argmax); and a register to which two
// accumulators add. If one loop in a group's iteration is of the last three kinds, lanes share none of them.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module map_to_grid(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
