// Copies an operand whose stride along the innermost written axis is not 1 into a layout in which it is, if each
// element is read often. In y[b, o] += x[b, k] * w[o, k] the copy of w is [k, o]: then a vector instruction computes
// many o.
//
// May run on any verified program, after inline_producers, which would inline the copy again. Promises the same bits:
// no sum changes its order. Refuses contractions (contraction.h), whose tiles pack their operands, sums with partial
// sums (their vectors run along the reduced axis), written axes too short for vectors, operands of which each element
// is read too few times (Tuning), index tensors, and operands that mention the axis in anything but a plain index.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

ir::Program pack_operands(const ir::Program& program, const Target& target);

}  // namespace caravan::optimize
