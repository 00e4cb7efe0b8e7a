// Merges accumulations that compute the same thing from the same buffers; what then serves nothing goes.
//
// May run on any verified program. Promises the same bits, and that no two accumulations that stay are equal in domain,
// maps, operands, body and the precision of the result. Refuses to merge away an observed result whose rows
// (batch | input -> output) differ, because whoever observes it sees them.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program merge_equal(const ir::Program& program);

}  // namespace caravan::optimize
