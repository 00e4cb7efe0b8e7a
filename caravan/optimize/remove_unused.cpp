#include "caravan/optimize/remove_unused.h"

#include <algorithm>

#include "caravan/optimize/reads.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;

ir::Program remove_unused(const ir::Program& program) {
  std::vector<bool> needed(program.buffers.size(), false);
  auto need = [&](BufferId id) { needed[size_t(id)] = true; };
  auto need_root = [&](BufferId id) {
    need(id);
    if (auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(id)].kind)) need(random->step);
  };
  for (BufferId id : program.observed) need_root(id);
  for (const auto& a : program.assignments) need_root(a.value);
  ir::Program out{program.name, program.symbols, {}, {}, program.assignments, program.observed};
  for (size_t k = program.accumulations.size(); k-- > 0;) {  // readers come after what they read
    const Accumulation& a = program.accumulations[k];
    if (!needed[size_t(a.target)]) continue;
    for_each_read(program, a, need);
    out.accumulations.push_back(a);
  }
  std::reverse(out.accumulations.begin(), out.accumulations.end());
  for (const auto& a : program.assignments) need(a.state);

  std::vector<BufferId> renamed(program.buffers.size(), -1);
  for (size_t b = 0; b < needed.size(); ++b)
    if (needed[b]) renamed[b] = BufferId(out.buffers.size()), out.buffers.push_back(program.buffers[b]);
  auto rename = [&](BufferId& id) { id = renamed[size_t(id)]; };
  for (ir::Buffer& b : out.buffers)
    if (auto* random = std::get_if<ir::RandomLeaf>(&b.kind)) rename(random->step);
  for (Accumulation& a : out.accumulations) {
    rename(a.target);
    for (ir::Operand& o : a.operands) rename(o.buffer);
    if (a.after != -1) rename(a.after);
  }
  for (auto& a : out.assignments) rename(a.state), rename(a.value);
  for (BufferId& id : out.observed) rename(id);
  return out;
}

}  // namespace caravan::optimize
