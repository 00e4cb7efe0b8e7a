#include "caravan/deploy/lanes.h"

#include "caravan/loop/rows.h"
#include "caravan/loop/walk.h"

namespace caravan::deploy {

using namespace loop;

namespace {

// Over lanes, a register starts, is summed into in loops, and is added to a total: what passes/split_loops makes. (The
// blocks of a long sum look the same, but their neighbours do not lie side by side.)
bool is_partial_sum(const For& loop) {
  if (loop.kind != LoopKind::serial || loop.body.size() < 2 || !has_loop(loop.body)) return false;
  if (loop.extent != ir::SumOrder::kLanes || !has_lanes(loop)) return false;
  auto* start = std::get_if<Reset>(&loop.body.front());
  auto* end = std::get_if<Combine>(&loop.body.back());
  return start && end && start->to == end->value && side_by_side(loop);
}

void turn(Block& block) {
  for (Statement& s : block) {
    auto* f = std::get_if<For>(&s);
    if (f && is_partial_sum(*f))
      f->kind = LoopKind::vector;
    else if (Block* within = inside(s))
      turn(*within);
  }
}

}  // namespace

Module lanes_inside(const Module& module) {
  Module out = module;
  for (Kernel& kernel : out.kernels) turn(kernel.body);
  return out;
}

}  // namespace caravan::deploy
