// Computes the blocks of long sums into few elements by themselves, so that threads can share them:
//
//     y[c] += x[b, c]   in blocks of 64 b     becomes     part[n, c] += x[64*n + b, c];  y[c] += part[n, c]
//
// An example is the gradient of the bias of a convolution. The order of a sum (ir::SumOrder) says that its blocks are
// added up by themselves, and then in order, so no bit changes. If the order has blocks of blocks, the second step adds
// the parts in these.
//
// May run after inlining, which would otherwise compute the first step again for every reader. Promises the same bits.
// Refuses sums whose blocks are not those of their outermost loop; sums with lanes or conditions; contractions, whose
// blocks are shared as tiles; sums of few blocks; and so many sums that threads can share whole sums instead.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

ir::Program share_blocks(const ir::Program& program, const Target& target);

}  // namespace caravan::optimize
