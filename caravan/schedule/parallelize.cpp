#include "caravan/schedule/parallelize.h"

#include <algorithm>
#include <cmath>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/outer_loops.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// The estimated work of a block in scalar operations. A vector counts as one, but for what it moves from and to
// buffers: memory gives a few elements at a time.
class Work {
 public:
  explicit Work(const Target& target)
      : lanes_(target.lanes(DType::f32)), moved_elements_(target.tuning.moved_elements) {}
  double of(const For& loop) {
    const bool vector = loop.kind == LoopKind::vector;
    const double rounds = vector ? double((loop.extent + lanes_ - 1) / lanes_) : double(loop.extent);
    around_[loop.variable] = loop.extent;
    moved_ = vector ? double(lanes_) / double(moved_elements_) : moved_;
    const double out = rounds * of(loop.body);
    moved_ = vector ? 1 : moved_;
    return out;
  }

 private:
  double of(const Block& block) {
    double out = 0;
    for (const Statement& s : block)
      out += match(
          s, [&](const For& f) { return of(f); },
          [&](const If& i) { return 1 + share_entered(i, around_) * of(i.body); },
          [&](const Simple auto&) {
            double moved = 1;
            for_each_access(s, [&](const Access&) { moved = moved_; });
            return moved;
          });
    return out;
  }

  const int64_t lanes_, moved_elements_;
  Extents around_;
  double moved_ = 1;  // for the elements that are moved by one statement
};
bool try_parallel(For& loop, const Target& target) {
  const Tuning& tuning = target.tuning;
  const int64_t work = std::llround(Work(target).of(loop));
  const bool fits = loop.kind == LoopKind::serial || (loop.kind == LoopKind::vector && !has_loop(loop.body));
  if (!fits || loop.extent < 2 || work < tuning.parallel_work) return false;
  if (!independent(loop.variable, loop.extent, loop.body)) return false;
  loop.kind = LoopKind::parallel;
  int64_t iterations = loop.extent;
  For* around = &loop;
  while (iterations < tuning.most_chunks && around->body.size() == 1) {
    For* inner = std::get_if<For>(&around->body[0]);
    const bool can = inner && inner->kind == LoopKind::serial && inner->extent > 1 &&
                     work / (iterations * inner->extent) >= tuning.nest_work &&
                     independent(inner->variable, inner->extent, inner->body);
    if (!can) break;
    inner->kind = LoopKind::parallel, iterations *= inner->extent;
    around = inner;
  }
  around->vector = !has_loop(around->body);
  const int64_t chunks = std::min({iterations, tuning.most_chunks, work / tuning.chunk_work});
  loop.chunk = (iterations + chunks - 1) / chunks;
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
