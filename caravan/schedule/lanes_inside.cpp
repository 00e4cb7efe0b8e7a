#include "caravan/schedule/lanes_inside.h"

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// Over lanes, a register starts, is summed into in loops, and is added to a total: what split_loops makes. (The
// blocks of a long sum look the same, but their neighbours do not lie side by side.)
bool is_partial_sum(const For& loop, int64_t lanes) {
  if (loop.kind != LoopKind::serial || loop.body.size() < 2 || !has_loop(loop.body)) return false;
  if (loop.extent != lanes || !has_lanes(loop)) return false;
  auto* start = std::get_if<Reset>(&loop.body.front());
  auto* end = std::get_if<Combine>(&loop.body.back());
  return start && end && start->to == end->value && side_by_side(loop);
}

void turn(Block& block, int64_t lanes) {
  for (Statement& s : block) {
    auto* f = std::get_if<For>(&s);
    if (f && is_partial_sum(*f, lanes))
      f->kind = LoopKind::vector;
    else if (Block* within = inside(s))
      turn(*within, lanes);
  }
}

}  // namespace

Module lanes_inside(const Module& module, const Target& target) {
  Module out = module;
  for (Kernel& kernel : out.kernels) turn(statements(kernel), target.tuning.sum_lanes);
  return out;
}

}  // namespace caravan::schedule
