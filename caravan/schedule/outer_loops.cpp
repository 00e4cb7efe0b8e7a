#include "caravan/schedule/outer_loops.h"

#include <algorithm>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// Definitions, loops and guards can be told apart into kernels. What else stands at the top of a kernel, such as an
// accumulator and its store, must stay together.
bool can_split(const Statement& s) {
  return match(
      s, [](const OneOf<Define, For, If> auto&) { return true; },
      [](const OneOf<Reset, Combine, CombineFirst, Store, StoreCombine, StoreFirst, Move, Barrier, Prefetch> auto&) {
        return false;
      });
}

}  // namespace

std::vector<Kernel> outer_loops(const Kernel& kernel, const std::function<bool(For&)>& choose) {
  const Block& block = statements(kernel);
  if (!std::all_of(block.begin(), block.end(), can_split) || overwrites_loads(block)) return {kernel};
  std::vector<Kernel> parts;
  Block definitions;
  bool after_chosen = true, any = false;
  for (const Statement& s : block) {
    if (std::holds_alternative<Define>(s)) {
      definitions.push_back(s);
      if (!after_chosen) statements(parts.back()).push_back(s);
      continue;
    }
    Statement statement = s;
    For* loop = std::get_if<For>(&statement);
    const bool chosen = loop && choose(*loop);
    if (chosen || after_chosen) {
      parts.push_back(kernel);
      parts.back().body = definitions;
    }
    statements(parts.back()).push_back(std::move(statement));
    after_chosen = chosen, any = any || chosen;
  }
  return any ? parts : std::vector<Kernel>{kernel};
}

}  // namespace caravan::schedule
