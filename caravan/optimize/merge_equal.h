// Merges accumulations that compute the same values from the same buffers (common subexpressions), and removes what is
// then unused.
//
// May run on any verified program. Promises the same bits, and that no two accumulations that stay are equal in domain,
// maps, operands, body and precision of the result. Refuses to merge away a result that is observed or assigned to a
// state and whose division of axes (batch | input -> output) differs, because the caller or the state has that
// division.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program merge_equal(const ir::Program& program);

}  // namespace caravan::optimize
