#include "caravan/schedule/gpu_scatters.h"

#include <algorithm>
#include <optional>
#include <set>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/scatter_nest.h"
#include "caravan/target/prelude_sizes.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// The loops of the table: do iterations of each of them write different elements?
bool are_independent(const Block& nest, size_t loops) {
  const Block* block = &nest;
  for (size_t k = 0; k < loops; ++k) {
    const For& loop = std::get<For>(block->back());
    if (!independent(loop.variable, loop.extent, loop.body)) return false;
    block = &loop.body;
  }
  return true;
}

// Does a definition that the guards need depend on one of these loops?
bool guards_depend_on(const std::vector<For>& loops, const std::vector<Statement>& items) {
  std::set<Register> needed;
  auto of_loops = [&](const Term& term) {
    return std::any_of(loops.begin(), loops.end(), [&](const For& f) { return coefficient(term, f.variable) != 0; });
  };
  bool out = false;
  for (const Statement& item : items)
    if (auto* guard = std::get_if<If>(&item)) {
      for_each_use(*guard, [&](Register r) { needed.insert(r); });
      out = out || std::any_of(guard->where.begin(), guard->where.end(), of_loops);
    }
  for (size_t k = items.size(); k-- > 0;) {
    auto* define = std::get_if<Define>(&items[k]);
    if (!define || !needed.count(define->to)) continue;
    for_each_use(*define, [&](Register r) { needed.insert(r); });
    if (auto* load = std::get_if<Load>(&define->value)) out = out || of_loops(load->offset);
    if (auto* index = std::get_if<IndexValue>(&define->value)) out = out || of_loops(index->term);
    if (std::holds_alternative<RandomValue>(define->value)) return true;
  }
  return out;
}

}  // namespace

bool gather_scatter(Kernel& kernel, const Target& target) {
  Kernel trial = kernel;
  std::optional<TableSum> sum = table_sum(statements(kernel), trial, target.gpu);
  if (!sum) return false;
  const Gpu& gpu = target.gpu;
  if (sum->work <= gpu.most_matched) {
    trial.body = sum->added();
    kernel = std::move(trial);
    return false;
  }

  // A block of threads for some rows of the table.
  std::vector<For>& outer = sum->outer;
  if (guards_depend_on({outer.begin() + 1, outer.end()}, sum->items)) return false;
  if (!are_independent(sum->added(), outer.size())) return false;
  const int64_t most_blocks = gpu.table_blocks * gpu.multiprocessors,
                rows =
                    std::clamp<int64_t>((sum->rows - 1 + most_blocks) / most_blocks, 1, prelude_sizes::kMostTableRows);
  for (For& f : outer) f.kind = LoopKind::columns;
  for (For& f : sum->inner) f.kind = LoopKind::terms;
  outer[0].kind = LoopKind::rows;
  Block all;
  all.push_back(For{add_variable(trial, "once"), 1, LoopKind::grid, sum->added(), (sum->rows - 1 + rows) / rows});
  trial.body = std::move(all);
  trial.grid = {int(gpu.most_threads), false, int(gpu.most_threads)};
  kernel = std::move(trial);
  return true;
}

}  // namespace caravan::schedule
