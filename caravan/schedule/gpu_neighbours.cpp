#include "caravan/schedule/gpu_neighbours.h"

#include <algorithm>
#include <map>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

class Cutter {
 public:
  Cutter(const Module& module, Kernel& kernel, const Gpu& gpu) : module_(module), kernel_(kernel), gpu_(gpu) {}
  void run() { look(statements(kernel_), {}); }

 private:
  // `around` are the loops of the same kind around the block.
  void look(Block& block, const std::vector<For*>& around) {
    for (Statement& s : block) {
      auto* loop = std::get_if<For>(&s);
      if (!loop) {
        if (Block* within = inside(s)) look(*within, around);
        continue;
      }
      std::vector<For*> nest;
      if (!around.empty() && around.back()->kind == loop->kind) nest = around;
      nest.push_back(loop);
      const bool shared = loop->kind == (kernel_.grid.lanes > 1 ? LoopKind::lanes : LoopKind::grid);
      if (shared && loop->chunk == 1 && is_simple(loop->body))
        cut(nest);
      else
        look(loop->body, nest);
    }
  }
  static bool is_simple(const Block& body) {
    return std::all_of(body.begin(), body.end(), [](const Statement& s) {
      bool local = false;
      for_each_local(s, [&](int, bool) { local = true; });
      return !local && (std::holds_alternative<Define>(s) || std::holds_alternative<Combine>(s) ||
                        std::holds_alternative<Store>(s));
    });
  }

  // Is every buffer that is stored loaded before, at the same place, or not at all?
  static bool loads_first(const Block& body) {
    std::map<BufferId, std::pair<const Term*, bool>> seen;  // where, and whether it was stored
    std::map<BufferId, int> stored;
    for_each_access(body, [&](const Access& a) { stored[a.buffer] += a.write; });
    bool out = true;
    for_each_access(body, [&](const Access& a) {
      if (stored[a.buffer] == 0) return;
      const auto [at, first] = seen.try_emplace(a.buffer, a.offset, a.write);
      if (first) return;
      out = out && *at->second.first == *a.offset && !at->second.second;
      at->second.second = a.write;
    });
    return out;
  }
  int64_t neighbours(const std::vector<For*>& nest) const {
    const For& loop = *nest.back();
    int64_t narrowest = gpu_.access_bytes, widest = 0;
    bool fits = loads_first(loop.body);
    for_each_access(loop.body, [&](const Access& a) {
      const int64_t stride = coefficient(*a.offset, loop.variable),
                    size = bytes(module_.buffers[size_t(a.buffer)].dtype);
      fits = fits && (stride == 1 || (stride == 0 && !a.write));
      if (stride == 1) narrowest = std::min(narrowest, size), widest = std::max(widest, size);
    });
    if (!fits || widest == 0) return 1;
    int64_t iterations = 1;
    for (const For* f : nest) iterations *= f->extent;
    for (int64_t n = std::min(gpu_.most_neighbours, gpu_.access_bytes / narrowest); n > 1; n /= 2) {
      if (n * widest > 2 * gpu_.access_bytes || loop.extent % n != 0 || !has_work(iterations / n)) continue;
      bool begins = true;
      for_each_access(loop.body, [&](const Access& a) {
        if (coefficient(*a.offset, loop.variable) == 1) begins = begins && begins_piece(*a.offset, loop.variable, n);
      });
      if (begins) return n;
    }
    return 1;
  }
  // Have all threads something to do, if there are so many pieces?
  bool has_work(int64_t pieces) const {
    const int64_t lanes = kernel_.grid.lanes;
    if (lanes == 1) return pieces >= gpu_.multiprocessors * gpu_.threads_in_flight;
    return pieces % lanes == 0 || pieces >= gpu_.least_pieces * lanes;
  }

  void cut(const std::vector<For*>& nest) {
    const int64_t n = neighbours(nest);
    if (n == 1) return;
    For& loop = *nest.back();
    const Variable each = add_variable(kernel_, "n");
    Block body = std::move(loop.body);
    substitute(body, loop.variable, Term::iterator(loop.variable, n) + Term::iterator(each));
    For inner{each, n, LoopKind::serial, std::move(body)};
    inner.unroll = Unroll::full;
    loop.body = Block();
    loop.body.push_back(std::move(inner));
    loop.extent /= n;
    for (size_t k = 0; k + 1 < nest.size(); ++k) nest[k]->chunk /= n;
  }

  const Module& module_;
  Kernel& kernel_;
  const Gpu& gpu_;
};

}  // namespace

bool begins_piece(const Term& offset, Variable along, int64_t n) {
  return offset.constant % n == 0 && std::all_of(offset.parts.begin(), offset.parts.end(), [&](const Term::Part& part) {
           return (part.kind == Term::Part::Kind::iterator && part.which == along) || part.coefficient % n == 0;
         });
}

Module gpu_neighbours(const Module& module, const Target& target) {
  Module out = module;
  for (Kernel& kernel : out.kernels)
    if (has_statements(kernel) && kernel.contractions.empty() && kernel.grid.lanes > 0)
      Cutter(module, kernel, target.gpu).run();
  return out;
}

}  // namespace caravan::schedule
