// Large loops over rows become parallel loops, a kernel of its own each.
//
// The outermost loop of a kernel is made parallel if its iterations are independent (what they write lies apart) and
// there is enough work to share. Chunks depend on the loop alone, never on the machine, and no sum is split: the bits
// are the same with any number of threads.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module parallelize(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
