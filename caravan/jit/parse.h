// Parses programs of accumulations (buffers.h has the notation).
#pragma once

#include <string_view>

#include "caravan/ir/program.h"
#include "caravan/jit/buffers.h"

namespace caravan::jit {

// A buffer that no line writes is a state of its name. A buffer that a line writes and none reads is a result: the
// program assigns it to a state of its name. A buffer that is both written and read is temporary. Throws SpecError,
// with the line and a caret under the column, for every text that is not a program. Parentheses, calls and signs may be
// nested 200 deep, index tensors 50 deep, and a number in an index or a domain is at most 2^40.
ir::Program parse_program(std::string_view text, const Buffers& buffers = {});

}  // namespace caravan::jit
