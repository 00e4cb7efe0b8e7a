// Parses programs of accumulations, one on each line, in the notation in which ir::to_string prints them.
//
//     y[i, j] += a[i, k] * b[k, j]   for i < 64, j < 32, k < 128        # a remark
//     p[o] max= x[2*o + k - 1]   for o < 4, k < 3 where 2*o + k - 1 >= 0
//     e[b, d] += table[ids[b], d]   for b < 32, d < 64
//     n[b] argmax= x[b, c]   for b < 32, c < 10 counting c
//
// A buffer has the least size that contains all its indices. The size of one that is read through an index tensor, such
// as `table`, must be given in `sizes`.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "caravan/ir/program.h"

namespace caravan::jit {

// What does not follow from the text about its buffers.
struct Buffers {
  std::map<std::string, std::vector<int64_t>> sizes{};  // of buffers whose sizes do not follow from their indices
  std::map<std::string, DType> dtypes{};                // f32 if not given; i32 for index tensors
};

// A buffer that no line writes is a state of its name. A buffer that a line writes and none reads is a result: the
// program assigns it to a state of its name. A buffer that is both written and read is temporary. Throws SpecError,
// with the line and a caret under the column, for every text that is not a program. Parentheses, calls and signs may be
// nested 200 deep, index tensors 50 deep, and a number in an index or a domain is at most 2^40.
ir::Program parse_program(std::string_view text, const Buffers& buffers = {});

}  // namespace caravan::jit
