// Makes one kernel of several that follow each other and share batches, such as the products and the softmax of
// attention, so that what one of them computes for the next stays in the cache of a processor core:
//
//     for b < 4: for s < 256: for h < 6: for t < 256:                    for b < 4:
//       scores[b, s, h, t] = sum over d of q[b, s, h, d] * k[b, t, h, d]   for h < 6:
//     for b < 4: for s < 256: for h < 6:                                     for s, t:  scores[b, s, h, t] = sum ..
//       weights[b, s, h, ..] = softmax of scores[b, s, h, ..]      becomes   for s:     weights[b, s, h, ..] = ..
//     for b < 4: for s < 256: for h < 6: for d < 64:                         for s, d:  y[b, s, h, d] = sum ..
//       y[b, s, h, d] = sum over t of weights[b, s, h, t] * v[b, t, h, d]
//
// The loops of the group (For::group) go around the kernels, whose own loops stay as they are, one nest after the
// other. Each of them is then tiled or vectorised for itself, and local_buffers makes an array of the thread of what is
// used in the group alone: the scores of one head.
//
// Runs after fuse, when kernels are final, and before tile_contractions. Promises the same bits: no sum changes its
// order. Groups neighbouring kernels, each of which reads what one before it writes, if
//   - at least two of them are contractions, which stay large enough for tiles;
//   - the loops of the group are batches of every contraction: both factors depend on them. A factor that does not, a
//     weight, would be packed again in each iteration;
//   - every element that two kernels touch, and one of them writes, belongs to one iteration of the group's loops;
//   - at least one buffer is used in the group alone, and one iteration of all such buffers fits into the memory of a
//     thread (Tuning::stack_elements).
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module group_kernels(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
