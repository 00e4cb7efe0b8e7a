// Chooses the order of every floating-point sum, maximum and minimum (ir::SumOrder). The order decides how a sum
// rounds, so it is chosen once, before the optimisations, and depends on the accumulation alone (of one that is divided
// over devices, on the whole: Accumulation::chosen_by), and on whether the processor has fused multiply-add.
//
// * Lanes. A sum in order is one chain of additions, each of which waits for the one before. In y[o] += w[i, o] * x[i]
//   the innermost written axis o has stride 1 or 0 in all operands, so the sums of many o are computed at once, and
//   each may stay a chain. In x[i] += w[i, o] * y[o] only the reduced axis o has stride 1: if it is long, its terms are
//   added to several partial sums, the lanes.
// * Blocks. A chain of more than 256 additions, along one iterator or several, is cut into blocks of at most 64
//   additions, those into blocks of at most 32 blocks, and so on. Then the rounding error grows with the logarithm of
//   the number of terms. A block is made a little shorter if its size then divides the extent.
// * Maxima and minima have lanes as sums do. They do not round, but the order decides which of +0 and -0 is found.
// * Contractions (contraction.h) have no lanes, because tiles add the terms of many sums at once. One of more than
//   Tuning::most_terms terms is cut into blocks of at most half as many, which tiles take one after the other. Its
//   products are added by fused multiply-add, which rounds once, if the processor has it.
//
// For a GPU only fused multiply-add is chosen here; map_to_grid chooses the lanes with its loops.
//
// May run on any verified program, after the passes that decide which terms a sum has and in which direction it reads
// them (solve_writes, gather_operands, run_forwards), and again after split_long_sums, for the sums of its parts.
// Promises the same terms, and to change nothing but the order; an order that was stated before does not count.
// Refuses, and states no order for, sums of integers, which do not round; products, argmax and argmin; and what is
// added into memory element by element, as through an index tensor, which is added in the order of the iterators.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

ir::Program split_sums(const ir::Program& program, const Target& target);

}  // namespace caravan::optimize
