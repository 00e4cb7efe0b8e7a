// A reduced axis that is read backwards is run through forwards: s += x[i, 3 - j] becomes s += x[i, j], where memory is
// read in its order, and a long sum can be kept in lanes.
//
// May run on any verified program, before the order of sums is chosen: it is part of that choice, and changes how sums
// and products round. Promises the same points with the same values. What a copy is read for counts as what it copies,
// because later passes read copies in place: of sum(einsum("h, -w => h, w", x)) it is the sum that turns around.
// Refuses iterators that anything reads forwards (x[i - k] * w[k]) or that are written; argmax and argmin, which keep
// the first winner; and bodies that read their position.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program run_forwards(const ir::Program& program);

}  // namespace caravan::optimize
