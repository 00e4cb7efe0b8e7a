// Computes the blocks of long sums into few elements by themselves, so that threads can share them:
//
//     y[c] += x[b, c]   in blocks of 64 b     becomes     part[n, c] += x[64*n + b, c];  y[c] += part[n, c]
//
// An example is the gradient of the bias of a convolution. The order of a sum (ir::SumOrder) says that its blocks are
// added up by themselves, and then in order, so no bit changes. Blocks of blocks are those of the second step.
//
// May run after inlining, which would otherwise compute the first step again for every reader. Refuses sums that are
// not in blocks of their outermost loop, that have lanes or conditions, contractions, whose blocks are shared by tiles,
// and sums that are short or so many that threads can share these instead.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

ir::Program share_blocks(const ir::Program& program, const Target& target);

}  // namespace caravan::optimize
