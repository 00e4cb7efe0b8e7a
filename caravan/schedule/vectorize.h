// Loops whose iterations run side by side get their kinds.
//
// * A loop that contains no loop becomes a vector loop.
// * A loop around a reduction whose neighbours lie side by side in memory (y[o] += w[i, o] * x[i]: over o), or over the
//   lanes of a split sum, is cut into blocks, each a vector loop around the reduction: its accumulators fill registers.
//   Of loops with nothing between them the innermost is taken; if that is short, the next that is long goes inside.
// * Loops around that, if their iterations share what they read (the rows of a product, of one side and of the other),
//   are cut into blocks too, each an unrolled loop: what is read once serves all. Then, while there are registers,
//   blocks of one row are taken together. Only the first of these loops may leave iterations over, or the text would
//   double with each.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module vectorize(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
