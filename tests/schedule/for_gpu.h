// Programs as passes for a GPU meet them.
#pragma once

#include "schedule/split_lowered.h"

namespace caravan::schedule {

inline loop::Module lowered_for_gpu(const Program& program, const Target& target = gpu_target()) {
  return split_lowered(program, target);
}

// A GPU of so few threads that small programs fill it.
inline Target small_gpu(int64_t multiprocessors, int64_t threads) {
  Gpu gpu;
  gpu.multiprocessors = multiprocessors, gpu.threads_in_flight = threads;
  return gpu_target(gpu);
}

inline Tensor indices(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(double(i % 7));
  return tensor(Array(parse_shape(std::to_string(count) + "|"), values, DType::i32));
}
// The gradient of a table of 28 rows.
inline Program table_gradient() {
  return observe(scatter_add(parameter("g", "1024|64"), indices(1024), 28).named("y"));
}

}  // namespace caravan::schedule
