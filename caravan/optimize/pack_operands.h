// An operand whose elements lie far apart along the innermost written axis is copied, with that axis last, where each
// element is read often: y[b, o] += x[b, k] * w[o, k] reads a copy of w as [k, o], and then many o run at once.
//
// May run on any verified program, after inline_producers, which would put the copy back. Promises the same bits: no
// sum changes its order. Refuses sums that are split (they run along the reduced axis), written axes too short for
// lanes, operands that are read too few times an element (Tuning), index tensors, and operands that mention the
// axis in more than a plain index.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

ir::Program pack_operands(const ir::Program& program, const Target& target);

}  // namespace caravan::optimize
