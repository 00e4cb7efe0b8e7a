// States the order of every floating-point sum (ir::SumOrder): a choice of bits, made before the optimisations and not
// one of them. It depends on the accumulation alone.
//
// * Lanes. A sum in order is one long chain of additions, each of which waits for the one before. Where the innermost
//   written axis lies side by side in all operands, many such chains run at once, and no lanes are needed
//   (y[o] += w[i, o] * x[i]). Elsewhere, if a long reduced axis lies side by side in the operands, it is summed in
//   lanes (x[i] += w[i, o] * y[o]: over o).
// * Blocks. A chain of more than 256 additions, of one iterator or of several, is cut into blocks of at most 64, those
//   into blocks of at most 32 blocks, and so on: the rounding error grows with the logarithm of the number of terms.
//   Blocks are a little shorter where nothing is left over then. A shorter sum has no blocks.
//
// Sums of integers have no rounding and no stated order. Neither have sums that are added into memory element by
// element, as through an index tensor: they are added in the order of the iterators.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

ir::Program split_sums(const ir::Program& program, const Target& target);

}  // namespace caravan::optimize
