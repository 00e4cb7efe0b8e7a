// The kernel that combines rows of a GPU's memory.
#pragma once

#include <string>

#include "caravan/ops/op.h"

namespace caravan::nccl {

inline constexpr const char* kCombine = "caravan_combine";
// CUDA C++ of a kernel with the arguments (rows, out, count, number of rows): out[k] = rows[0][k] combined with
// rows[1][k], ..., in the order of backend::combine. Rows follow each other.
std::string combine_text(DType dtype, Accumulator accumulator);

}  // namespace caravan::nccl
