// What operations make their nodes of; for the sources of this folder alone.
#pragma once

#include <span>

#include "caravan/tensor/graph.h"

namespace caravan {

// A new use of a relation, at a line and within the call of the library that is being made.
std::shared_ptr<const Link> link_to(shape::RelationRef relation, Source where);
std::shared_ptr<const ir::Body> shared(ir::Body body);
std::vector<AccumulateNode::Attached> attach(const std::vector<Operand>& operands);  // operand i in slot i
ir::Body fold_body(Op op, int operands);                                             // op(op(op(a, b), c), ...)

// A C++ number takes the precision of the tensors it meets, which must be able to hold it (dtype.h, rule 6).
// Sums and products compute in at least the precision of their result.
void check_numbers(std::span<const Operand> operands, std::optional<Accumulator> accumulator = std::nullopt);

}  // namespace caravan
