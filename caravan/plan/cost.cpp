#include "caravan/plan/cost.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "caravan/loop/walk.h"

namespace caravan::plan {

namespace {

struct Sizes {
  std::vector<int64_t> extents;                 // by loop variable
  std::map<const loop::Term*, int64_t> widths;  // of vectors and pieces, by the address of their offset
};
Sizes sizes_of(const loop::Kernel& kernel) {
  Sizes out{std::vector<int64_t>(kernel.variables.size(), 1), {}};
  const loop::Block& block = statements(kernel);
  loop::for_each_of<loop::For>(block, [&](const loop::For& f) { out.extents[size_t(f.variable)] = f.extent; });
  loop::for_each_of<loop::Define>(block, [&](const loop::Define& d) {
    if (auto* load = std::get_if<loop::Load>(&d.value))
      out.widths[&load->offset] = kernel.registers[size_t(d.to)].width;
  });
  auto stored = [&](const auto& s) { out.widths[&s.offset] = kernel.registers[size_t(s.value)].width; };
  loop::for_each_of<loop::Store>(block, stored);
  loop::for_each_of<loop::StoreCombine>(block, stored);
  loop::for_each_of<loop::Move>(
      block, [&](const loop::Move& s) { out.widths[&s.offset] = kernel.locals[size_t(s.local)].elements; });
  return out;
}

// How many elements one access touches in all iterations. A symbol only shifts them. With an index tensor, any element
// of the buffer may be touched, so all count.
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

// A library call reads or writes each element of its arguments once.
KernelCost cost(const loop::Module& module, const loop::LibraryCall& call) {
  auto size = [&](ir::BufferId id) { return bytes(module.buffers[size_t(id)].dtype); };
  auto elements = [&](ir::BufferId id) { return module.buffers[size_t(id)].shape.elements(); };
  return match(
      call.function,
      [](const loop::LibraryCall::Copy& copy) {
        return KernelCost{copy.bytes, copy.bytes, 0};
      },
      [&](const loop::LibraryCall::Product& p) {
        return KernelCost{p.batch * p.terms * (p.rows * size(call.reads[0]) + p.columns * size(call.reads[1])),
                          p.batch * p.rows * p.columns * size(call.writes[0]), 2 * p.multiplications()};
      },
      [&](const loop::LibraryCall::Collective&) {
        KernelCost out;
        for (const ir::BufferId id : call.reads) out.read_bytes += elements(id) * size(id);
        for (const ir::BufferId id : call.writes) out.written_bytes += elements(id) * size(id);
        return out;
      },
      [](const loop::LibraryCall::Wait&) { return KernelCost{}; });
}

// Attention reads and writes each row of its arguments once, if the cache holds the rows that many others need.
KernelCost cost(const loop::Module& module, const loop::Kernel& kernel, const loop::Attention& a) {
  const int64_t element = bytes(module.buffers[size_t(a.reads[0].buffer)].dtype), heads = a.batch * a.heads;
  const int64_t of_rows = heads * a.rows * a.depth * element, of_columns = heads * a.columns * a.depth * element;
  const int64_t numbers = heads * a.rows * bytes(DType::f32);
  using Part = loop::Attention::Part;
  const bool forward = a.part == Part::forward, writes_columns = a.part == Part::columns || a.part == Part::gradient;
  KernelCost out;
  out.read_bytes = 2 * of_columns + int64_t(a.reads.size() - 2) * of_rows +
                   (forward                ? 0
                    : a.part == Part::rows ? 1
                                           : 2) *
                       numbers;
  out.written_bytes =
      (writes_columns ? 2 * of_columns : 0) + (a.part == Part::columns ? 0 : of_rows) +
      (forward ? (a.totals >= 0 ? numbers : 0) + (a.sums >= 0 ? numbers : 0) : (a.part == Part::rows ? numbers : 0));
  out.flops = loop::count_flops(kernel);
  return out;
}

}  // namespace

KernelCost cost(const loop::Module& module, const loop::Kernel& kernel) {
  if (const loop::Attention* a = loop::attention(kernel)) return cost(module, kernel, *a);
  if (const loop::LibraryCall* call = loop::library_call(kernel)) return cost(module, *call);
  const Sizes sizes = sizes_of(kernel);
  struct Touched {
    std::vector<const loop::Term*> offsets;  // without duplicates
    int64_t elements = 0;
  };
  std::map<std::pair<ir::BufferId, bool>, Touched> touched;
  loop::for_each_access(kernel, [&](const loop::Access& access) {
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
  out.flops = loop::count_flops(kernel);
  return out;
}

ExchangeCost exchange_cost(const loop::Module& module, const loop::LibraryCall& call, int64_t devices) {
  ExchangeCost out;
  for (const ir::BufferId id : call.reads) {
    const ir::Buffer& b = module.buffers[size_t(id)];
    out.bytes += b.shape.elements() * bytes(b.dtype);
  }
  const double all = double(out.bytes), others = double(devices - 1), n = double(devices);
  switch (std::get<loop::LibraryCall::Collective>(call.function).exchange.kind) {
    case ir::Collective::Kind::all_reduce: out.sent = 2 * all * others / n; break;
    case ir::Collective::Kind::all_gather: out.sent = all * others; break;
    case ir::Collective::Kind::reduce_scatter: out.sent = all * others / n; break;
  }
  return out;
}

int64_t operations(const ir::Program& program) {
  int64_t out = 0;
  for (const ir::Accumulation& a : program.accumulations) {
    int64_t points = 1;
    for (const int64_t extent : a.extents) points *= extent;
    const auto& entries = a.body.entries();
    const auto applied = std::count_if(entries.begin(), entries.end(),
                                       [](const ir::Scalar& s) { return s.kind == ir::Scalar::Kind::apply; });
    const bool sums = a.extents.size() > a.write.size();
    out += points * (int64_t(applied) + (sums ? 1 : 0));
  }
  return out;
}

}  // namespace caravan::plan
