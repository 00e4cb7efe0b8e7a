// The notation of jit: accumulations, one on each line, as ir::to_string prints them.
//
//     y[i, j] += a[i, k] * b[k, j]   for i < 64, j < 32, k < 128        # a remark
//     p[o] max= x[2*o + k - 1]   for o < 4, k < 3 where 2*o + k - 1 >= 0
//     e[b, d] += table[ids[b], d]   for b < 32, d < 64
//     n[b] argmax= x[b, c]   for b < 32, c < 10 counting c
//
// A buffer has the least size that contains all its indices. The size of one that is read through an index tensor, such
// as `table`, must be given in `sizes`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "caravan/ops/dtype.h"

namespace caravan::jit {

// What does not follow from the text about its buffers.
struct Buffers {
  std::map<std::string, std::vector<int64_t>> sizes{};  // of buffers whose sizes do not follow from their indices
  std::map<std::string, DType> dtypes{};                // f32 if not given; i32 for index tensors
};

}  // namespace caravan::jit
