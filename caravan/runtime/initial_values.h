// The first value of a state. A drawn element depends on the Context's seed, the state's name and the element's place
// alone: not on the device, the threads or the other states.
#pragma once

#include <string>

#include "caravan/tensor/tensor.h"

namespace caravan {

namespace backend {
class Device;
}

struct InitialState {
  const std::string& name;
  const Shape& shape;
  DType dtype;
  const Init& init;
};

void check_initial(const InitialState& state);  // ShapeError where given values have another shape

// Computes the values into the device's own memory, large states on at most so many threads (0: one for each processor
// that this process may use).
void fill_initial(backend::Device& device, const InitialState& state, uint64_t seed, int threads);

}  // namespace caravan
