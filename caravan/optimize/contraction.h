// Recognises contractions: sums of products that have rows and columns, such as matrix products, convolutions, the
// products of attention, and all their gradients.
//
// In y[b, m, n] += x[b, m, k] * w[b, k, n], an iterator that both factors have is a batch (b) or summed (k), one that
// only the first has is a row (m), one that only the second has is a column (n). Their names, number and strides do not
// matter. A contraction is computed in tiles (schedule/tile_contractions.h), which reuse every element that they load
// many times. It is recognised once, before the order of sums is chosen, because that order depends on it.
#pragma once

#include <optional>

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

// Iterators by what they are. Those of extent 1 are left out.
struct Contraction {
  std::vector<int> batch, rows, columns, summed;  // the columns are those of the factor with the innermost written axis
};

// The contraction that the accumulation is, if it is one and is large enough for tiles.
std::optional<Contraction> contraction(const ir::Program& program, const ir::Accumulation& accumulation,
                                       const Tuning& tuning);

}  // namespace caravan::optimize
