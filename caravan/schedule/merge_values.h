// A value that is computed again where it is still known becomes the register that holds it.
//
// May run after lowering; finds most after fuse (kernels that read the same rows), forward_stores and hoist (which
// brings equal values into one block). Promises the same bits. Two definitions are equal if they are the same value of
// the same operands in the same precision, the first stands in the same block or one around it, and nothing between
// them stores to a buffer that is loaded or changes an accumulator that is read. Refuses everything else: 0 and -0 are
// different numbers, and a + b is not compared with b + a.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module merge_values(const loop::Module& module);

}  // namespace caravan::schedule
