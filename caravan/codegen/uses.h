// What a kernel uses, and which of its registers become variables of the generated text.
//
// A register that is used once is printed as an expression where it is used. It becomes a variable if it is used
// several times or in another loop than it is defined in, or if it is loaded from memory that the kernel overwrites.
// Two kinds of operands become variables because of bugs of GCC:
// * Operands of an op that may not be evaluated, such as z in
//       for (i = 0; i < 16; ++i)
//         for (k = 0; k < 6; ++k) y[6*i + k] = x[6*i + k] > 0 ? z[6*i + 5 - k] : 0;
//   GCC 12.2 at -O3 with AVX2 or AVX-512 makes masked vector loads of the conditional ones and drops the order of their
//   elements: z is read forwards (GCC bug 114375, fixed in GCC 14). A variable is loaded without a condition.
// * Operands of an addition to or subtraction from the constant 0. GCC 12.2 at every level, -O0 too, makes `-fabs(x)`
//   of `0.0 - fabs(x)` and of `-fabs(x) + 0.0`, which is -0 instead of 0 where x is 0, and likewise `-(double)n` of
//   `0.0 - (double)n` with an integer n. It does so if it sees that the operand cannot be -0, as if 0 - x and -x
//   differed only there; they differ where x is +0. It does not look through a variable.
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
  std::set<ir::BufferId> exchanged;  // by lanes of a GPU (loop/dependence.h)
  std::vector<bool> is_variable;     // by register: does it become a variable
};
Uses uses_of(const loop::Module& module, const loop::Kernel& kernel);

const ir::RandomLeaf& random_leaf(const loop::Module& module, ir::BufferId id);

}  // namespace caravan::codegen
