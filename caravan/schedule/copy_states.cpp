#include "caravan/schedule/copy_states.h"

#include "caravan/base/error.h"

namespace caravan::schedule {

using namespace loop;

Module copy_states(const Module& module) {
  Module out = module;
  for (const auto& [state, value] : module.assignments) {
    const ir::Buffer &to = module.buffers[size_t(state)], &from = module.buffers[size_t(value)];
    CARAVAN_CHECK(std::holds_alternative<ir::Computed>(from.kind) && to.dtype == from.dtype,
                  "`" + to.name + "` is assigned `" + from.name + "`");
    Kernel kernel;
    kernel.name = to.name;
    kernel.comments = {to.name + " := " + from.name};
    kernel.body = LibraryCall{LibraryCall::Copy{to.shape.elements() * bytes(to.dtype)}, {state}, {value}};
    out.kernels.push_back(std::move(kernel));
  }
  out.assignments.clear();
  return out;
}

}  // namespace caravan::schedule
