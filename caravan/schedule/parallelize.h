// Makes large outermost loops parallel loops, each in a kernel of its own.
//
// An outermost loop of a kernel becomes parallel if its iterations are independent (they write different elements) and
// it has enough work (Tuning::parallel_work). If it has few iterations, and all that it contains is another such loop
// whose iterations are large, that becomes parallel too: threads then share the iterations of both, such as the blocks
// of rows and of columns of a product. How iterations are divided into chunks does not depend on the number of
// threads, and no sum is divided, so that the bits are the same with any number of threads. Parallel loops without a
// loop inside are marked as loops that can be computed in vectors (For::vector), because such a loop may be all that
// there is for the C compiler's vectoriser.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module parallelize(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
