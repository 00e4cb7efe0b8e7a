// Chooses vector loops and register tiles, by giving loops their kinds.
//
// * A loop that contains no loop becomes a vector loop.
// * A loop around a reduction that has stride 1 in memory, such as o in y[o] += w[i, o] * x[i], or the loop over the
//   lanes of a split sum, is cut into blocks. Each block is a vector loop around the reduction, whose accumulators fill
//   vector registers. In a perfect nest the innermost loop is taken; if it is too short, the nearest outer loop that is
//   long enough is interchanged to the inside.
// * The loops around that, if their iterations read some element in common (as in a matrix product), are cut into
//   blocks too, each an unrolled loop: the element is loaded once for all of them. Vector and unrolled loops together
//   are a register tile. Short sums over elements that are read only once, as in a norm, are left alone. A second round
//   of the same enlarges tiles while registers are left. Only one of the unrolled loops may have a remainder, because
//   each remainder would double the length of the generated text.
//
// May run when loops have their final bodies: after split_loops, whose loops over lanes it takes, and before
// parallelize. Promises the same bits: a loop becomes vector or unrolled only if its iterations can run in lockstep
// (loop/dependence.h), every sum adds its terms in the order that it had, and a remainder is computed by loops of its
// own. Refuses loops that are not serial or that have a hint for the compiler (Unroll), loops of fewer than
// Tuning::least_lanes iterations around no other loop, bodies whose vectors an earlier pass has chosen, such as tiles,
// and the loops of a group, inside of which it looks at each nest for itself.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module vectorize(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
