#include "caravan/plan/cost.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "caravan/loop/walk.h"

namespace caravan::plan {

namespace {

using loop::Block;

struct Sizes {
  std::vector<int64_t> extents;                 // by loop variable
  std::map<const loop::Term*, int64_t> widths;  // of loads of vectors, by their offset
};
void collect(const Block& block, const loop::Kernel& kernel, Sizes& sizes) {
  for (const loop::Statement& s : block) {
    if (auto* f = std::get_if<loop::For>(&s)) sizes.extents[size_t(f->variable)] = f->extent;
    auto* d = std::get_if<loop::Define>(&s);
    auto* load = d ? std::get_if<loop::Load>(&d->value) : nullptr;
    if (load) sizes.widths[&load->offset] = kernel.registers[size_t(d->to)].width;
    if (const Block* within = loop::inside(s)) collect(*within, kernel, sizes);
  }
}

int64_t count_flops(const Block& block, const loop::Kernel& kernel) {
  auto on_floats = [&](loop::Register r) {
    const loop::RegisterType& type = kernel.registers[size_t(r)];
    return is_float(type.dtype) ? int64_t(type.width) : 0;
  };
  int64_t out = 0;
  for (const loop::Statement& s : block) {
    auto* f = std::get_if<loop::For>(&s);
    if (const Block* within = loop::inside(s)) out += (f ? f->extent : 1) * count_flops(*within, kernel);
    if (auto* d = std::get_if<loop::Define>(&s))
      if (auto* apply = std::get_if<loop::Apply>(&d->value))
        out += is_float(apply->compute) ? kernel.registers[size_t(d->to)].width : 0;
    if (auto* c = std::get_if<loop::Combine>(&s)) out += on_floats(c->to);
    if (auto* c = std::get_if<loop::CombineFirst>(&s)) out += on_floats(c->best);
    if (auto* c = std::get_if<loop::StoreCombine>(&s)) out += on_floats(c->value);
    if (auto* c = std::get_if<loop::StoreFirst>(&s)) out += on_floats(c->value);
  }
  return out;
}

// The elements that one access reaches in all iterations: where a symbol or a loaded index moves it, wherever that is.
int64_t footprint(const loop::Term& offset, const Sizes& sizes, int64_t elements) {
  if (offset.has_load()) return elements;
  auto width = sizes.widths.find(&offset);
  int64_t points = width == sizes.widths.end() ? 1 : width->second, span = points;
  for (const loop::Term::Part& part : offset.parts) {
    if (part.kind != loop::Term::Part::Kind::iterator) continue;
    const int64_t extent = sizes.extents[size_t(part.which)];
    points *= extent, span += std::abs(part.coefficient) * (extent - 1);
  }
  return std::min({points, span, elements});
}

}  // namespace

KernelCost cost(const loop::Module& module, const loop::Kernel& kernel) {
  Sizes sizes{std::vector<int64_t>(kernel.variables.size(), 1), {}};
  collect(kernel.body, kernel, sizes);
  struct Touched {
    std::vector<const loop::Term*> offsets;  // different ones
    int64_t elements = 0;
  };
  std::map<std::pair<ir::BufferId, bool>, Touched> touched;
  loop::for_each_access(kernel.body, [&](const loop::Access& access) {
    const int64_t all = module.buffers[size_t(access.buffer)].shape.elements();
    Touched& t = touched[{access.buffer, access.write}];
    for (const loop::Term* known : t.offsets)
      if (*known == *access.offset) return;
    t.offsets.push_back(access.offset);
    t.elements = std::min(all, t.elements + footprint(*access.offset, sizes, all));
  });
  KernelCost out;
  for (const auto& [key, t] : touched)
    (key.second ? out.written_bytes : out.read_bytes) += t.elements * bytes(module.buffers[size_t(key.first)].dtype);
  out.flops = count_flops(kernel.body, kernel);
  return out;
}

}  // namespace caravan::plan
