#include "caravan/optimize/merge_equal.h"

#include <unordered_map>

#include "caravan/base/hash.h"
#include "caravan/optimize/remove_unused.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;

ir::Program merge_equal(const ir::Program& program) {
  ir::Program out = program;
  out.accumulations.clear();
  std::vector<bool> keeps_shape(program.buffers.size(), false);
  for (BufferId id : program.observed) keeps_shape[size_t(id)] = true;
  for (const ir::Assignment& a : program.assignments) keeps_shape[size_t(a.value)] = true;
  std::vector<BufferId> as(program.buffers.size());
  for (size_t b = 0; b < as.size(); ++b) as[b] = BufferId(b);

  std::unordered_multimap<size_t, size_t> seen;  // hash -> accumulation that stays
  for (Accumulation a : program.accumulations) {
    for (ir::Operand& o : a.operands) o.buffer = as[size_t(o.buffer)];
    if (a.after != -1) a.after = as[size_t(a.after)];
    if (a.part) {  // all accumulations that write its target would have to be equal
      out.accumulations.push_back(std::move(a));
      continue;
    }
    WordHash hash;
    // ir::hash covers the structure alone. Equal layers differ in their buffers, which are hashed below.
    hash.add(ir::hash(program, a));
    for (const ir::Operand& o : a.operands) hash.add(uint64_t(o.buffer));
    bool merged = false;
    auto [at, end] = seen.equal_range(hash.value());
    for (; at != end && !merged; ++at) {
      const Accumulation& b = out.accumulations[at->second];
      const bool same_shape = program.buffers[size_t(a.target)].shape == program.buffers[size_t(b.target)].shape;
      merged = a.operands == b.operands && ir::equal(out, a, out, b) && (same_shape || !keeps_shape[size_t(a.target)]);
      if (merged) as[size_t(a.target)] = b.target;
    }
    if (merged) continue;
    seen.emplace(hash.value(), out.accumulations.size());
    out.accumulations.push_back(std::move(a));
  }
  for (BufferId& id : out.observed) id = as[size_t(id)];
  for (auto& a : out.assignments) a.value = as[size_t(a.value)];
  for (ir::Buffer& b : out.buffers)
    if (auto* random = std::get_if<ir::RandomLeaf>(&b.kind)) random->step = as[size_t(random->step)];
  return remove_unused(out);
}

}  // namespace caravan::optimize
