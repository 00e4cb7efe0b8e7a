#include "caravan/schedule/unroll_lanes.h"

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

void unroll(Block& block, int64_t lanes, int at_once) {
  for (Statement& s : block) {
    auto* loop = std::get_if<For>(&s);
    if (loop && loop->kind == LoopKind::lanes) {  // `chunk`: of the loops inside of it that lanes share with it
      if (loop->extent * loop->chunk > lanes) loop->unroll = Unroll::some, loop->at_once = at_once;
    } else if (Block* within = inside(s)) {
      unroll(*within, lanes, at_once);
    }
  }
}

}  // namespace

Module unroll_lanes(const Module& module, const Target& target) {
  return with_changed_kernels(
      module, [&](Kernel& kernel) { unroll(statements(kernel), kernel.grid.lanes, target.gpu.lane_loads); });
}

}  // namespace caravan::schedule
