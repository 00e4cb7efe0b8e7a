// Questions that several passes ask of an accumulation: what it reads, and in which form it writes.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

// What must be computed before it: its operands, for random operands also the buffer with the step number that is part
// of their key, and the buffer that it comes `after`.
template <class Visit>
void for_each_read(const ir::Program& program, const ir::Accumulation& accumulation, Visit visit) {
  for (const ir::Operand& operand : accumulation.operands) {
    visit(operand.buffer);
    if (auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(operand.buffer)].kind)) visit(random->step);
  }
  if (accumulation.after != -1) visit(accumulation.after);
}

// The distance in memory, in elements, between what neighbouring values of the iterator read or write.
int64_t stride(const ir::Program& program, ir::BufferId buffer, const std::vector<ir::Term>& map, int iterator);

// Does the accumulation read or write through an index tensor?
bool has_loads(const ir::Accumulation& accumulation);

bool is_iterator_or_number(const ir::Term& index);  // i or 3, but not i + 3

// Does the accumulation compute each element of its target once and write all of them, with a permutation of its
// iterators as the write map and a body that reads neither the position nor an index tensor? A collective does not.
bool is_elementwise(const ir::Program& program, const ir::Accumulation& accumulation);

// Drops the operands that are read neither by the body nor by an index that the accumulation still needs.
void drop_unread(ir::Accumulation& accumulation);

}  // namespace caravan::optimize
