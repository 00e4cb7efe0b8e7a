// Orders the kernels for a GPU by stages, so that those of one stage can be launched together: a launch costs as much
// as a small kernel. A kernel comes one stage after the last one that it depends on: that writes what it reads or
// writes, or reads what it writes, or that it must come after. Within a stage the order stays as it was.
//
// May run when the kernels are final. Promises the same bits. The memory planner lets buffers share memory only if they
// are used in different stages.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module order_stages(const loop::Module& module);

}  // namespace caravan::schedule
