#include "caravan/backend/interp/interp.h"

#include "caravan/backend/interp/accumulate.h"
#include "caravan/backend/interp/buffers.h"
#include "caravan/backend/states.h"
#include "caravan/base/error.h"

namespace caravan::interp {

using ir::Accumulation;
using ir::Buffer;
using ir::BufferId;
using ir::Program;

namespace {

void check_symbols(const Program& program, const std::vector<int64_t>& symbols) {
  if (symbols.size() != program.symbols.size())
    throw StateError("program `" + program.name + "` has " + std::to_string(program.symbols.size()) + " symbols, but " +
                     std::to_string(symbols.size()) + " values were given.");
  backend::check_symbols(program.symbols, symbols);
}

// By buffer: the last accumulation that reads or writes it; for results of the program, the number of accumulations.
std::vector<size_t> last_readers(const Program& program) {
  std::vector<size_t> last(program.buffers.size(), 0);
  for (size_t k = 0; k < program.accumulations.size(); ++k) {
    last[size_t(program.accumulations[k].target)] = k;
    for (const ir::Operand& operand : program.accumulations[k].operands) {
      last[size_t(operand.buffer)] = k;
      if (const auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(operand.buffer)].kind))
        last[size_t(random->step)] = k;
    }
  }
  auto keep = [&](BufferId id) {
    last[size_t(id)] = program.accumulations.size();
    if (const auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(id)].kind))
      last[size_t(random->step)] = program.accumulations.size();
  };
  for (const ir::Assignment& assignment : program.assignments) keep(assignment.value);
  for (BufferId id : program.observed) keep(id);
  return last;
}

// What all devices along an axis of the mesh have of a buffer.
Array exchanged(const Program& program, const Accumulation& a, const Array& own, backend::Exchange& exchange) {
  const Buffer& target = program.buffers[size_t(a.target)];
  Array out(target.shape, own.dtype());
  backend::Communicator& communicator = exchange.communicator();
  const std::vector<int> group = exchange.mesh().along(a.collective->mesh_axis, communicator.rank());
  const int64_t stripes = ir::stripes_of_slice(program, a);
  const backend::Reduced reduced{own.data(), out.mutable_data(), own.size(), own.dtype(), a.accumulator, stripes};
  const backend::Gathered gathered{own.data(), out.mutable_data(), stripes, own.size() / stripes * bytes(own.dtype())};
  switch (a.collective->kind) {
    case ir::Collective::Kind::all_reduce: communicator.all_reduce(group, {&reduced, 1}); break;
    case ir::Collective::Kind::all_gather: communicator.all_gather(group, {&gathered, 1}); break;
    case ir::Collective::Kind::reduce_scatter: communicator.reduce_scatter(group, {&reduced, 1}); break;
  }
  return out;
}

}  // namespace

DType kept_type(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

std::vector<Array> run(const Program& program, State& state, const std::vector<int64_t>& symbols, uint64_t seed,
                       backend::Exchange* exchange) {
  check_symbols(program, symbols);
  Buffers buffers(program, state, symbols, seed);
  const std::vector<size_t> last = last_readers(program);
  for (size_t k = 0; k < program.accumulations.size(); ++k) {
    const Accumulation& accumulation = program.accumulations[k];
    const std::optional<Array> others = accumulation.part ? buffers.take(accumulation.target) : std::nullopt;
    if (accumulation.collective) {
      CARAVAN_CHECK(exchange, "the device is not one of a mesh");
      const BufferId from = accumulation.operands[0].buffer;
      const Array own = buffers.copy(from, kept_type(program.buffers[size_t(from)].dtype));
      buffers.put(accumulation.target, exchanged(program, accumulation, own, *exchange));
    } else {
      buffers.put(accumulation.target, accumulate(program, accumulation, buffers, symbols, others));
    }
    if (last[size_t(accumulation.target)] == k) buffers.drop(accumulation.target);
    for (const ir::Operand& operand : accumulation.operands)
      if (last[size_t(operand.buffer)] == k) buffers.drop(operand.buffer);
  }

  std::vector<Array> observed;
  for (BufferId id : program.observed)
    observed.push_back(buffers.copy(id, kept_type(program.buffers[size_t(id)].dtype)));

  // Everything that can fail comes before the first change of a state.
  State assigned;
  for (const ir::Assignment& assignment : program.assignments) {
    const Buffer& to = program.buffers[size_t(assignment.state)];
    assigned.insert_or_assign(to.name, buffers.copy(assignment.value, kept_type(to.dtype)).reshaped(to.shape));
  }
  while (!assigned.empty()) {
    auto outcome = state.insert(assigned.extract(assigned.begin()));
    if (!outcome.inserted) std::swap(outcome.position->second, outcome.node.mapped());
  }
  return observed;
}

}  // namespace caravan::interp
