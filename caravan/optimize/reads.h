// What an accumulation reads: its operands, and for random ones the step that keys them.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

template <class Visit>
void for_each_read(const ir::Program& program, const ir::Accumulation& accumulation, Visit visit) {
  for (const ir::Operand& operand : accumulation.operands) {
    visit(operand.buffer);
    if (auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(operand.buffer)].kind)) visit(random->step);
  }
}

// How far apart in memory two neighbours along the iterator are.
int64_t stride(const ir::Program& program, ir::BufferId buffer, const std::vector<ir::Term>& map, int iterator);

// Drops the operands that neither the body nor an index that counts reads.
void drop_unread(ir::Accumulation& accumulation);

}  // namespace caravan::optimize
