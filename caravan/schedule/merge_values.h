// Common subexpression elimination: a value that is computed again becomes the register that already holds it.
//
// May run after lowering. It finds most after fuse (kernels that read the same elements), forward_stores and hoist
// (which brings equal values into one block). Promises the same bits. A definition is merged with an earlier one if
// both apply the same operation to the same operands in the same precision, the earlier one is in the same block or an
// enclosing one, and nothing between them stores to the buffer that is loaded or changes the accumulator that is read.
// Refuses everything else: 0 and -0 are different numbers, and a + b does not match b + a.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module merge_values(const loop::Module& module);

}  // namespace caravan::schedule
