#include "caravan/backend/backend.h"

namespace caravan::backend {

std::shared_ptr<const plan::Plan> plan_for(const Target& target, const ir::Program& program,
                                           const plan::Options& options) {
  return std::make_shared<plan::Plan>(plan::make_plan(program, target, options));
}

std::shared_ptr<const plan::Plan> needed_plan(const Device& device, const ir::Program& program,
                                              const plan::Options& options) {
  if (const auto target = device.target()) return plan_for(*target, program, options);
  plan::check(options);
  auto out = std::make_shared<plan::Plan>();
  out->program = program;
  return out;
}

std::unique_ptr<Executable> prepare(Device& device, const ir::Program& program, const plan::Options& options) {
  return device.prepare(needed_plan(device, program, options));
}

}  // namespace caravan::backend
