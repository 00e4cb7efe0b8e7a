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
