#include "apps/mesh_table.h"

#include <fmt/format.h>

#include <map>

#include "caravan/ir/print.h"
#include "caravan/mesh/mesh.h"
#include "caravan/plan/cost.h"

namespace caravan::app {

namespace {

// The mesh that the program was divided for, as its symbols say; empty: for none.
std::string mesh_text(const ir::Program& program) {
  std::string out;
  for (const ir::Symbol& symbol : program.symbols)
    if (symbol.name.starts_with("mesh."))
      out += fmt::format("{}{}={}", out.empty() ? "" : ", ", symbol.name.substr(5), symbol.range);
  return out;
}
MeshAxis axis_of_mesh(const ir::Program& program, int64_t which) {
  for (const ir::Symbol& symbol : program.symbols)
    if (symbol.name.starts_with("mesh.") && which-- == 0) return {symbol.name.substr(5), symbol.range};
  return {};
}

}  // namespace

std::string mesh_table(const plan::Plan& plan) {
  const ir::Program& program = plan.program;
  const std::string mesh = mesh_text(program);
  if (mesh.empty()) return "One device runs the whole step; --devices 2 divides it.\n";
  std::string out = fmt::format("The mesh is {}.\n\nWhat each device has of values that are divided:\n", mesh);
  std::map<ir::BufferId, std::string> over;
  for (const ir::Placement& p : program.placements)
    over[p.buffer] += fmt::format("{}{} over {}", over.count(p.buffer) ? ", " : "",
                                  ir::axis_text(program.buffers[size_t(p.buffer)].shape, p.axis), p.mesh_axis);
  for (const auto& [id, text] : over) {
    const ir::Buffer& b = program.buffers[size_t(id)];
    out += fmt::format("  {:<40} {:<20} {}{}\n", b.name, to_string(b.shape), text,
                       std::holds_alternative<ir::StateLeaf>(b.kind) ? ", a state" : "");
  }
  out += "\nWhat devices exchange in a step (bytes that each device sends):\n";
  const loop::Module& module = plan.scheduled;
  int64_t calls = 0, total = 0;
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const loop::LibraryCall* call = loop::library_call(module.kernels[k]);
    auto* collective = call ? std::get_if<loop::LibraryCall::Collective>(&call->function) : nullptr;
    if (!collective) continue;
    size_t until = k + 1;
    for (;; ++until) {
      const loop::LibraryCall* other = loop::library_call(module.kernels[until]);
      auto* wait = other ? std::get_if<loop::LibraryCall::Wait>(&other->function) : nullptr;
      if (wait && wait->kernel == k) break;
    }
    const MeshAxis axis = axis_of_mesh(program, collective->exchange.mesh_axis);
    const auto sent = int64_t(plan::exchange_cost(module, *call, axis.size).sent);
    std::string names;
    for (const ir::BufferId id : call->reads) names += (names.empty() ? "" : ", ") + module.buffers[size_t(id)].name;
    ++calls, total += sent;
    out +=
        fmt::format("  kernel {:<4} {} over {}: {} {}, {} bytes; {}\n    {}\n", k, ir::name(collective->exchange.kind),
                    axis.name, call->reads.size(), call->reads.size() == 1 ? "value" : "values", sent,
                    until == k + 1 ? "nothing else runs meanwhile"
                                   : fmt::format("kernels {} to {} run meanwhile", k + 1, until - 1),
                    names);
  }
  return out + fmt::format("  {} {}, {} bytes\n", calls, calls == 1 ? "call" : "calls", total);
}

}  // namespace caravan::app
