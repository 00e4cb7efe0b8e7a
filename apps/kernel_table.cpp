#include "apps/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "caravan/base/list_text.h"
#include "caravan/loop/walk.h"

namespace caravan::app {

namespace {

using loop::Block;

void collect_extents(const Block& block, std::vector<int64_t>& extents) {
  for (const loop::Statement& s : block) {
    if (auto* f = std::get_if<loop::For>(&s)) extents[size_t(f->variable)] = f->extent;
    if (const Block* within = loop::inside(s)) collect_extents(*within, extents);
  }
}

int64_t count_flops(const Block& block, const loop::Kernel& kernel) {
  auto on_floats = [&](loop::Register r) { return int64_t(is_float(kernel.registers[size_t(r)])); };
  int64_t out = 0;
  for (const loop::Statement& s : block) {
    auto* f = std::get_if<loop::For>(&s);
    if (const Block* within = loop::inside(s)) out += (f ? f->extent : 1) * count_flops(*within, kernel);
    if (auto* d = std::get_if<loop::Define>(&s))
      if (auto* apply = std::get_if<loop::Apply>(&d->value)) out += is_float(apply->compute);
    if (auto* c = std::get_if<loop::Combine>(&s)) out += on_floats(c->to);
    if (auto* c = std::get_if<loop::CombineFirst>(&s)) out += on_floats(c->best);
    if (auto* c = std::get_if<loop::StoreCombine>(&s)) out += on_floats(c->value);
    if (auto* c = std::get_if<loop::StoreFirst>(&s)) out += on_floats(c->value);
  }
  return out;
}

// The elements that one access reaches in all iterations: where a symbol or a loaded index moves it, wherever that is.
int64_t footprint(const loop::Term& offset, const std::vector<int64_t>& extents, int64_t elements) {
  if (offset.has_load()) return elements;
  int64_t points = 1, span = 1;
  for (const loop::Term::Part& part : offset.parts) {
    if (part.kind != loop::Term::Part::Kind::iterator) continue;
    const int64_t extent = extents[size_t(part.which)];
    points *= extent, span += std::abs(part.coefficient) * (extent - 1);
  }
  return std::min({points, span, elements});
}

// "b0 10 (o0 16 (i0 2), o0 16)": a loop, its extent, the loops inside it.
std::string loops_text(const Block& block, const loop::Kernel& kernel) {
  std::string out;
  for (const loop::Statement& s : block) {
    std::string inner;
    if (auto* f = std::get_if<loop::For>(&s)) {
      inner = fmt::format("{} {}", kernel.variables[size_t(f->variable)], f->extent);
      if (f->kind != loop::LoopKind::serial) inner += fmt::format(" {}", loop::name(f->kind));
      if (const std::string body = loops_text(f->body, kernel); !body.empty()) inner += " (" + body + ")";
    }
    if (auto* i = std::get_if<loop::If>(&s)) inner = loops_text(i->body, kernel);
    if (!inner.empty()) add_to_list(out, inner);
  }
  return out;
}

}  // namespace

KernelCost cost(const loop::Module& module, const loop::Kernel& kernel) {
  std::vector<int64_t> extents(kernel.variables.size(), 1);
  collect_extents(kernel.body, extents);
  struct Touched {
    std::vector<const loop::Term*> offsets;  // different ones
    int64_t elements = 0;
  };
  std::map<std::pair<ir::BufferId, bool>, Touched> touched;
  loop::for_each_access(kernel.body, [&](const loop::Access& access) {
    const int64_t all = module.program.buffers[size_t(access.buffer)].shape.elements();
    Touched& t = touched[{access.buffer, access.write}];
    for (const loop::Term* known : t.offsets)
      if (*known == *access.offset) return;
    t.offsets.push_back(access.offset);
    t.elements = std::min(all, t.elements + footprint(*access.offset, extents, all));
  });
  KernelCost out;
  for (const auto& [key, t] : touched)
    (key.second ? out.written_bytes : out.read_bytes) +=
        t.elements * bytes(module.program.buffers[size_t(key.first)].dtype);
  out.flops = count_flops(kernel.body, kernel);
  return out;
}

std::string kernel_table(const loop::Module& module) {
  std::string out = fmt::format("{:<28} {:>12} {:>12} {:>14}\n", "kernel", "bytes read", "written", "flops");
  KernelCost total;
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const loop::Kernel& kernel = module.kernels[k];
    const KernelCost c = cost(module, kernel);
    total.read_bytes += c.read_bytes, total.written_bytes += c.written_bytes, total.flops += c.flops;
    out += fmt::format("{:<28} {:>12} {:>12} {:>14}\n", fmt::format("{} {}", k, kernel.name), c.read_bytes,
                       c.written_bytes, c.flops);
    const std::string loops = loops_text(kernel.body, kernel);
    out += fmt::format("  loops {}\n", loops.empty() ? "none" : loops);
    for (const std::string& comment : kernel.comments) out += fmt::format("  from  {}\n", comment);
  }
  return out + fmt::format("{:<28} {:>12} {:>12} {:>14}\n", fmt::format("{} kernels", module.kernels.size()),
                           total.read_bytes, total.written_bytes, total.flops);
}

std::string memory_table(const loop::Module& module, const cc::MemoryPlan& plan) {
  const ir::Program& program = module.program;
  std::string out = fmt::format("{:<28} {:>12} {:>12}  {}\n", "buffer", "offset", "bytes", "kernels");
  for (const cc::Placement& p : plan.placements) {
    const std::string last = p.last >= int(module.kernels.size()) ? "end" : std::to_string(p.last);
    out += fmt::format("{:<28} {:>12} {:>12}  {}..{}\n", program.buffers[size_t(p.buffer)].name, p.offset, p.bytes,
                       p.first, last);
  }
  out += fmt::format("{:<28} {:>12} {:>12}\n", "peak", "", plan.bytes);

  std::set<ir::BufferId> used;
  for (const loop::Kernel& kernel : module.kernels)
    loop::for_each_access(kernel.body, [&](const loop::Access& access) { used.insert(access.buffer); });
  for (const auto& a : program.assignments) used.insert(a.state);
  for (const ir::BufferId id : used) {
    const ir::Buffer& b = program.buffers[size_t(id)];
    const bool state = std::holds_alternative<ir::StateLeaf>(b.kind),
               data = std::holds_alternative<ir::DataLeaf>(b.kind);
    if (state || data)
      out += fmt::format("{:<28} {:>12} {:>12}  always\n", b.name, state ? "state" : "data",
                         b.shape.elements() * bytes(b.dtype));
  }
  return out;
}

}  // namespace caravan::app
