#include "caravan/passes/parallelize.h"

#include <algorithm>

#include "caravan/loop/rows.h"

namespace caravan::passes {

using namespace loop;

namespace {

// About the time of a scalar operation each: handing over a chunk costs a few hundred of them.
constexpr int64_t kEnough = 100'000, kChunk = 25'000, kMostChunks = 64;
constexpr int64_t kAtOnce = 8;  // lanes of a vector loop

int64_t cost(const Block& block) {
  int64_t out = 0;
  for (const Statement& s : block) {
    if (auto* f = std::get_if<For>(&s))
      out += (f->kind == LoopKind::vector ? (f->extent + kAtOnce - 1) / kAtOnce : f->extent) * cost(f->body);
    else if (auto* i = std::get_if<If>(&s))
      out += 1 + cost(i->body);
    else
      out += 1;
  }
  return out;
}

bool try_parallel(For& loop) {
  const int64_t work = loop.extent * cost(loop.body);
  if (loop.kind != LoopKind::serial || loop.extent < 2 || work < kEnough) return false;
  if (!independent(loop.variable, loop.extent, loop.body)) return false;
  const int64_t chunks = std::min({loop.extent, kMostChunks, work / kChunk});
  loop.kind = LoopKind::parallel;
  loop.chunk = (loop.extent + chunks - 1) / chunks;
  return true;
}

// A kernel of loops becomes one kernel for each parallel loop and for what lies between; each makes the definitions
// before it for itself.
void split(const Kernel& kernel, std::vector<Kernel>& out) {
  std::vector<Kernel> parts;
  Block definitions;
  bool after_parallel = true, any = false;
  for (const Statement& s : kernel.body) {
    if (std::holds_alternative<Define>(s)) {
      definitions.push_back(s);
      if (!after_parallel) parts.back().body.push_back(s);
      continue;
    }
    Statement statement = s;
    For* loop = std::get_if<For>(&statement);
    const bool parallel = loop && try_parallel(*loop);
    if (parallel || after_parallel) {
      parts.push_back(kernel);
      parts.back().body = definitions;
    }
    parts.back().body.push_back(std::move(statement));
    after_parallel = parallel, any = any || parallel;
  }
  if (!any) parts = {kernel};
  out.insert(out.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
}

}  // namespace

Module parallelize(const Module& module) {
  Module out = module;
  out.kernels.clear();
  for (const Kernel& kernel : module.kernels) {
    const bool can_split = std::all_of(kernel.body.begin(), kernel.body.end(), [](const Statement& s) {
      return std::holds_alternative<For>(s) || std::holds_alternative<If>(s) || std::holds_alternative<Define>(s);
    });
    if (can_split && !overwrites_loads(kernel.body))
      split(kernel, out.kernels);
    else
      out.kernels.push_back(kernel);
  }
  return out;
}

}  // namespace caravan::passes
