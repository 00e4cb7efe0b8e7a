#include "caravan/backend/states.h"

#include "caravan/base/error.h"

namespace caravan::backend {

void check_state(const ir::Buffer& declared, const StateType& kept, bool has_value, const std::string& program) {
  if (!has_value)
    throw StateError("state `" + declared.name +
                     "` was never initialised; write it, or run a program that assigns it, before `" + program + "`.");
  if (kept.dtype != declared.dtype || kept.shape.elements() != declared.shape.elements())
    throw StateError("state `" + declared.name + "` has the shape `" + to_string(kept.shape) + "` and the precision " +
                     std::string(name(kept.dtype)) + " since another program, but `" + program +
                     "` was compiled for `" + to_string(declared.shape) + "`, " + std::string(name(declared.dtype)) +
                     "; compile it again.");
}

void check_symbols(const std::vector<ir::Symbol>& symbols, const std::vector<int64_t>& values) {
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t range = symbols[k].range;
    if (values[k] >= 0 && (range == 0 || values[k] < range)) continue;
    throw StateError("the index `" + symbols[k].name + "` is " + std::to_string(values[k]) + ", but must be " +
                     (range > 0 ? "in 0.." + std::to_string(range - 1) : std::string("at least 0")) + ".");
  }
}

}  // namespace caravan::backend
