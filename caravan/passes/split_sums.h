// Which sums are kept in several partial sums: a choice of bits, made before the optimisations and not one of them.
//
// A sum in order is one long chain of additions. Where the innermost written axis lies side by side in all operands,
// many such chains run at once and nothing need be split (y[o] += w[i, o] * x[i]). Elsewhere, if a long reduced axis
// lies side by side in the operands, it is split (x[i] += w[i, o] * y[o]: over o).
#pragma once

#include "caravan/ir/program.h"

namespace caravan::passes {

ir::Program split_sums(const ir::Program& program);

}  // namespace caravan::passes
