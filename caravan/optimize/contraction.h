// Recognises contractions: sums of products that have rows and columns, such as matrix products, convolutions, the
// products of attention, and all their gradients.
//
// In y[b, m, n] += x[b, m, k] * w[b, k, n], an iterator that is not written is summed (k). One that is written is a
// batch if both factors have it (b), a row if only the first has it (m), a column if only the second has it (n). Their
// names, number and strides do not matter. A contraction is computed in tiles (schedule/tile_contractions.h), which
// reuse every element that they load many times. It is recognised before the order of sums is chosen, because that
// order depends on it, and by pack_operands, which leaves its operands to the tiles.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

// Is the accumulation a contraction that is large enough for tiles?
bool is_contraction(const ir::Program& program, const ir::Accumulation& accumulation, const Tuning& tuning);

}  // namespace caravan::optimize
