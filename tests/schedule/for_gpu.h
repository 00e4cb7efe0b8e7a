// Programs as passes for a GPU meet them.
#pragma once

#include "caravan/lower/lower.h"
#include "caravan/optimize/split_sums.h"
#include "pass_table.h"

namespace caravan::schedule {

// A kernel for each accumulation, with the order of its sums.
inline loop::Module lowered_for_gpu(const Program& program, const Target& target = gpu_target()) {
  return lower::lower(optimize::split_sums(prepared(program), target));
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
