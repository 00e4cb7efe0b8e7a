// What a kernel uses, and which of its registers become variables of the text.
//
// A register that is used once is written where it is used. A variable is one that is used more often, or in another
// loop than its own; one that must be read before a store; and these operands, for the sake of GCC:
// * One that an op may leave out (`a > 0 ? b : c`): its loads would be conditional, which costs vector code a mask, and
//   GCC 12 gives lanes the wrong ones (six neighbours, -O3).
// * What a 0 is added to: GCC reads `-fabs(x) + 0.0`, and `0.0 - fabs(x)`, as `-fabs(x)`, which is -0 where x is 0.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

struct Uses {
  std::vector<ir::BufferId> buffers;  // these three in the order of first use
  std::vector<int> symbols;
  std::vector<std::string> streams;  // of random bits
  std::set<ir::BufferId> written;
  std::vector<bool> is_variable;  // by register
};
Uses uses_of(const loop::Module& module, const loop::Kernel& kernel);

const ir::RandomLeaf& random_leaf(const loop::Module& module, ir::BufferId id);

}  // namespace caravan::codegen
