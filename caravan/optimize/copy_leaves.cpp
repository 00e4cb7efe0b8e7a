#include "caravan/optimize/copy_leaves.h"

#include "caravan/ops/op.h"

namespace caravan::optimize {

ir::Program copy_leaves(const ir::Program& program) {
  ir::Program out = program;
  auto copied = [&](ir::BufferId id, DType dtype) {
    const ir::Buffer from = out.buffers[size_t(id)];
    if (std::holds_alternative<ir::Computed>(from.kind) && from.dtype == dtype) return id;
    ir::Accumulation a;
    a.target = ir::BufferId(out.buffers.size());
    a.accumulator = Accumulator::add;
    a.extents = from.shape.sizes();
    for (size_t k = 0; k < a.extents.size(); ++k) {
      a.iterators.push_back("i" + std::to_string(k));
      a.write.push_back(ir::Term::iterator(int(k)));
    }
    a.operands = {{id, a.write}};
    const int value = a.body.load(0);
    a.body.finish(from.dtype == dtype ? value : a.body.cast(dtype, value));
    a.label = "copy";
    a.source = from.where;
    std::string name = "copy of " + from.name + " " + std::to_string(out.buffers.size());
    out.buffers.push_back({std::move(name), from.shape, dtype, ir::Computed{}, from.where});
    out.accumulations.push_back(std::move(a));
    return out.accumulations.back().target;
  };
  for (auto& a : out.assignments) a.value = copied(a.value, out.buffers[size_t(a.state)].dtype);
  for (ir::BufferId& id : out.observed) id = copied(id, out.buffers[size_t(id)].dtype);
  return out;
}

}  // namespace caravan::optimize
