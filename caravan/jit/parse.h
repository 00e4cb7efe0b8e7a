// Accumulation programs from text: the notation in which ir::to_string prints accumulations, one a line.
//
//     y[i, j] += a[i, k] * b[k, j]   for i < 64, j < 32, k < 128        # a remark
//     p[o] max= x[2*o + k - 1]   for o < 4, k < 3 where 2*o + k - 1 >= 0
//     e[b, d] += table[ids[b], d]   for b < 32, d < 64
//     n[b] argmax= x[b, c]   for b < 32, c < 10 counting c
//
// A buffer is as large as its indices reach, unless it is read through another (table): that is given in `sizes`.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "caravan/ir/program.h"

namespace caravan::jit {

// What the text does not say of its buffers.
struct Buffers {
  std::map<std::string, std::vector<int64_t>> sizes{};  // of those whose indices do not say it
  std::map<std::string, DType> dtypes{};                // f32 where not given; ids are i32
};

// Buffers that no line writes are states of their name. One that a line writes and none reads is a result: the program
// assigns it to a state of its name. What is written and read again is the program's own.
// Throws SpecError with the line and a caret under the column, whatever the text is: parentheses, calls and signs may
// be nested 200 deep, buffers of ids 50 deep, and a number of an index or of a domain is at most 2^40.
ir::Program parse_program(std::string_view text, const Buffers& buffers = {});

}  // namespace caravan::jit
