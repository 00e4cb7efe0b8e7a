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
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module vectorize(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
