#include "caravan/backend/backend.h"

namespace caravan::backend {

std::shared_ptr<const plan::Plan> plan_for(const Target& target, const ir::Program& program,
                                           const plan::Options& options) {
  return std::make_shared<plan::Plan>(plan::make_plan(program, target, options));
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
