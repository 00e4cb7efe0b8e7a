#include "caravan/schedule/share_scatters.h"

#include <algorithm>
#include <optional>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// A nest of loops, with definitions and guards between them, around one addition into memory.
struct Scatter {
  std::vector<For*> loops;  // outermost first
  const StoreCombine* addition = nullptr;
};
bool take(Block& block, Scatter& out) {
  for (size_t k = 0; k < block.size(); ++k) {
    const bool last = k + 1 == block.size();
    const bool fits = match(
        block[k], [&](Define&) { return !last; },
        [&](For& f) {
          out.loops.push_back(&f);
          return last && f.kind == LoopKind::serial && f.lanes == 0 && f.blocks.empty() && take(f.body, out);
        },
        [&](If& guard) { return last && take(guard.body, out); },
        [&](StoreCombine& s) {
          out.addition = &s;
          return last;
        },
        [](OneOf<Reset, Combine, CombineFirst, Store, StoreFirst, Move, Barrier, Prefetch> auto&) { return false; });
    if (!fits) return false;
  }
  return out.addition != nullptr;
}

// The smallest size of blocks that divide the columns and have at least so many; 0 if there would be one block.
int64_t block_of(int64_t columns, int64_t least) {
  for (int64_t size = least; size <= columns / 2; ++size)
    if (columns % size == 0) return size;
  return 0;
}

// A loop around nothing but a guard becomes a guard around the loop, if the guard does not depend on the loop.
void move_guard_out(Block& block) {
  auto* loop = block.empty() ? nullptr : std::get_if<For>(&block.back());
  auto* guard = loop && loop->body.size() == 1 ? std::get_if<If>(&loop->body[0]) : nullptr;
  if (!guard || std::any_of(guard->where.begin(), guard->where.end(),
                            [&](const Term& term) { return coefficient(term, loop->variable) != 0; }))
    return;
  If out{guard->where, {}};
  Block inner = std::move(guard->body);
  loop->body = std::move(inner);
  out.body.push_back(std::move(block.back()));
  block.back() = std::move(out);
}

// The nest with loop number `which` cut into blocks, and the loop over blocks around it.
For in_blocks(Kernel& kernel, const For& nest, size_t which, int64_t size) {
  Block around;
  around.push_back(nest);
  Scatter copy;
  take(around, copy);
  For& columns = *copy.loops[which];
  For out{columns.variable, columns.extent / size, LoopKind::serial, {}};
  const Variable within = add_variable(kernel, kernel.variables[size_t(columns.variable)] + "_in_block");
  columns.variable = within, columns.extent = size;
  substitute(columns.body, out.variable, Term::iterator(out.variable, size) + Term::iterator(within));
  Block* holder = &around;
  for (size_t k = 0; k < which; ++k) holder = &copy.loops[k]->body;
  move_guard_out(*holder);
  out.body = std::move(around);
  return out;
}

std::optional<For> shared(Kernel& kernel, const For& nest, const Module& module, const Target& target) {
  Block block;
  block.push_back(nest);
  Scatter scatter;
  if (!take(block, scatter) || scatter.addition->buffer.is_local() || !scatter.addition->offset.has_load())
    return std::nullopt;
  int64_t work = 1;
  for (const For* loop : scatter.loops) work *= loop->extent;
  if (work < target.tuning.parallel_work || independent(nest.variable, nest.extent, nest.body)) return std::nullopt;
  const DType dtype = module.buffers[size_t(scatter.addition->buffer)].dtype;
  for (size_t k = scatter.loops.size(); k-- > 1;) {
    const For& columns = *scatter.loops[k];
    const int64_t size = block_of(columns.extent, target.tuning.scatter_vectors * target.lanes(dtype));
    if (size == 0 || coefficient(scatter.addition->offset, columns.variable) == 0) continue;
    Kernel tried = kernel;
    For out = in_blocks(tried, nest, k, size);
    if (!independent(out.variable, out.extent, out.body)) continue;
    kernel = std::move(tried);
    return out;
  }
  return std::nullopt;
}

}  // namespace

Module share_scatters(const Module& module, const Target& target) {
  Module out = module;
  for (Kernel& kernel : out.kernels) {
    if (!has_statements(kernel)) continue;
    Block block = std::move(statements(kernel));
    for (Statement& s : block)
      if (auto* loop = std::get_if<For>(&s))
        if (auto changed = shared(kernel, *loop, out, target)) *loop = std::move(*changed);
    statements(kernel) = std::move(block);
  }
  return out;
}

}  // namespace caravan::schedule
