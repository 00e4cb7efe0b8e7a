#include "caravan/backend/backend.h"

#include <cstdlib>

namespace caravan::backend {

std::shared_ptr<const plan::Plan> plan_for(const Target& target, const ir::Program& program,
                                           const plan::Options& options) {
  plan::Options chosen = options;
  // Attention as one kernel has been compiled and emulated, but not yet run on a GPU: it is used on wish alone.
  if (target.kind == Target::Kind::cuda && !std::getenv("CARAVAN_GPU_ATTENTION"))
    chosen.off.emplace_back("gpu_attention");
  return std::make_shared<plan::Plan>(plan::make_plan(program, target, chosen));
}

Prepared prepare(Device& device, const ir::Program& program, const plan::Options& options) {
  plan::check(options);
  const std::optional<Target> target = device.target();
  auto bare = std::make_shared<plan::Plan>();
  bare->options = options, bare->program = program;
  if (!target) return {bare, device.prepare(bare)};
  bare->target = *target;
  if (auto before = device.restore(bare)) return {bare, std::move(before)};
  auto made = plan_for(*target, program, options);
  return {made, device.prepare(made)};
}

}  // namespace caravan::backend
