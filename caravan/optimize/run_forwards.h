// Reverses the direction of reduced axes that are read backwards: s += x[i, 3 - j] becomes s += x[i, j]. Then memory is
// read in ascending order, and a long sum can be vectorised.
//
// May run on any verified program, before the order of sums is chosen: it is part of that choice, and changes how sums
// and products round. Promises the same points with the same values. An operand that is a copy counts as what it is
// copied from, because later passes inline copies: in sum(einsum("h, -w => h, w", x)) it is the sum whose direction
// changes, not the copy. Refuses iterators along which anything is read forwards (x[i - k] * w[k]) and those that are
// written; argmax and argmin, which keep the first winner; and bodies that read their position.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program run_forwards(const ir::Program& program);

}  // namespace caravan::optimize
