#include "caravan/schedule/lanes_inside.h"

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// Is it a loop over partial sums as split_loops makes it? Each iteration resets a register, adds to it in inner loops,
// and adds it to a total. (The loop over the blocks of a long sum has the same form, but its iterations do not read
// neighbouring elements.)
bool is_partial_sum(const For& loop, int64_t lanes) {
  if (loop.kind != LoopKind::serial || loop.body.size() < 2 || !has_loop(loop.body)) return false;
  if (loop.extent != lanes || !has_lanes(loop)) return false;
  auto* start = std::get_if<Reset>(&loop.body.front());
  auto* end = std::get_if<Combine>(&loop.body.back());
  return start && end && start->to == end->value && side_by_side(loop);
}

void turn(Block& block, int64_t lanes) {
  for_each_statement(block, [&](Statement& s) {
    auto* f = std::get_if<For>(&s);
    if (!f || !is_partial_sum(*f, lanes)) return true;
    f->kind = LoopKind::vector;
    return false;
  });
}

}  // namespace

Module lanes_inside(const Module& module, const Target& target) {
  Module out = module;
  for (Kernel& kernel : out.kernels) turn(statements(kernel), target.tuning.sum_lanes);
  return out;
}

}  // namespace caravan::schedule
