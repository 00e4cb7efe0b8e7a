// What a kernel uses, and which of its registers become variables of the generated text.
//
// A register that is used once is printed as an expression where it is used. It becomes a variable if it is used
// several times or in another loop than it is defined in, or if it is loaded from memory that the kernel overwrites.
// Two kinds of operands become variables because of bugs of GCC:
// * Operands of an op that may not be evaluated (`a > 0 ? b : c`). Their loads would be conditional, which needs a mask
//   in vector code, and GCC 12 at -O3 then loads the wrong vector elements (seen with six neighbouring elements).
// * Operands of an addition or subtraction with the constant 0. GCC simplifies `-fabs(x) + 0.0` and `0.0 - fabs(x)` to
//   `-fabs(x)`, which is -0 instead of 0 where x is 0.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

struct Uses {
  std::vector<ir::BufferId> buffers;  // buffers, symbols and streams are in the order of first use
  std::vector<int> symbols;
  std::vector<std::string> streams;  // of random bits
  std::set<ir::BufferId> written;
  std::vector<bool> is_variable;  // by register: does it become a variable
};
Uses uses_of(const loop::Module& module, const loop::Kernel& kernel);

const ir::RandomLeaf& random_leaf(const loop::Module& module, ir::BufferId id);

}  // namespace caravan::codegen
