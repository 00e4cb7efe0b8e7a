#include "caravan/schedule/parallelize.h"

#include <algorithm>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/outer_loops.h"

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

}  // namespace

Module parallelize(const Module& module, const Target& target) {
  Module out = module;
  out.kernels.clear();
  auto parallel = [&](For& loop) { return try_parallel(loop, target); };
  for (const Kernel& kernel : module.kernels)
    for (Kernel& part : outer_loops(kernel, parallel)) out.kernels.push_back(std::move(part));
  return out;
}

}  // namespace caravan::schedule
