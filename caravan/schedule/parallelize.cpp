#include "caravan/schedule/parallelize.h"

#include <algorithm>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// The estimated work of a block in scalar operations. In a vector loop, `at_once` iterations count as one.
int64_t cost(const Block& block, int64_t at_once) {
  int64_t out = 0;
  for (const Statement& s : block)
    out += match(
        s,
        [&](const For& f) {
          const int64_t rounds = f.kind == LoopKind::vector ? (f.extent + at_once - 1) / at_once : f.extent;
          return rounds * cost(f.body, at_once);
        },
        [&](const If& i) { return 1 + cost(i.body, at_once); }, [](const Simple auto&) { return int64_t(1); });
  return out;
}

bool try_parallel(For& loop, const Target& target) {
  const Tuning& tuning = target.tuning;
  const int64_t work = loop.extent * cost(loop.body, target.lanes(DType::f32));
  if (loop.kind != LoopKind::serial || loop.extent < 2 || work < tuning.parallel_work) return false;
  if (!independent(loop.variable, loop.extent, loop.body)) return false;
  const int64_t chunks = std::min({loop.extent, tuning.most_chunks, work / tuning.chunk_work});
  loop.kind = LoopKind::parallel;
  loop.chunk = (loop.extent + chunks - 1) / chunks;
  return true;
}

// Definitions, loops and guards can be told apart into kernels. What else stands at the top of a kernel, such as an
// accumulator and its store, must stay together.
bool can_split(const Statement& s) {
  return match(
      s, [](const OneOf<Define, For, If> auto&) { return true; },
      [](const OneOf<Reset, Combine, CombineFirst, Store, StoreCombine, StoreFirst> auto&) { return false; });
}

// Splits a kernel into one kernel for each parallel loop and one for the statements between two of them. Each repeats
// the definitions that come before it.
void split(const Kernel& kernel, const Target& target, std::vector<Kernel>& out) {
  std::vector<Kernel> parts;
  Block definitions;
  bool after_parallel = true, any = false;
  for (const Statement& s : statements(kernel)) {
    if (std::holds_alternative<Define>(s)) {
      definitions.push_back(s);
      if (!after_parallel) statements(parts.back()).push_back(s);
      continue;
    }
    Statement statement = s;
    For* loop = std::get_if<For>(&statement);
    const bool parallel = loop && try_parallel(*loop, target);
    if (parallel || after_parallel) {
      parts.push_back(kernel);
      parts.back().body = definitions;
    }
    statements(parts.back()).push_back(std::move(statement));
    after_parallel = parallel, any = any || parallel;
  }
  if (!any) parts = {kernel};
  out.insert(out.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
}

}  // namespace

Module parallelize(const Module& module, const Target& target) {
  Module out = module;
  out.kernels.clear();
  for (const Kernel& kernel : module.kernels) {
    const Block& block = statements(kernel);
    if (std::all_of(block.begin(), block.end(), can_split) && !overwrites_loads(block))
      split(kernel, target, out.kernels);
    else
      out.kernels.push_back(kernel);
  }
  return out;
}

}  // namespace caravan::schedule
