// What makes two programs the same for the compiler.
#pragma once

#include <string>

#include "caravan/ir/program.h"

namespace caravan::ir {

// A text that two programs share only if the compiler makes the same kernels of them. It has all of the program but
// what the kernels do not depend on: the lines of the user's program, what is written there, and the elements of data.
std::string identity(const Program& program);

}  // namespace caravan::ir
