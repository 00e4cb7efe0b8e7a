// Makes large outermost loops parallel loops, each in a kernel of its own.
//
// An outermost loop of a kernel becomes parallel if its iterations are independent (they write different elements) and
// it has enough work (Tuning::parallel_work). If it has few iterations, and all that it contains is another such loop
// whose iterations are large, that becomes parallel too: threads then share the iterations of both, such as the blocks
// of rows and of columns of a product. How iterations are divided into chunks does not depend on the number of
// threads.
//
// May run when loops have their final bodies, after vectorize. Promises the same bits with any number of threads,
// because no sum is divided, and kernels in which a parallel loop has only definitions before it and nothing after it:
// a kernel with several outer loops is divided. Marks parallel loops without a loop inside as loops that can be
// computed in vectors (For::vector), because such a loop may be all that there is for the C compiler's vectoriser.
// Refuses loops whose iterations may touch what another one writes, such as those of a scatter; unrolled loops, and
// vector loops around other loops; loops with too little work; and what stands beside an accumulator or a store outside
// of all loops, as in a sum of everything.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module parallelize(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
