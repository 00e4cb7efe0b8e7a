// Orders the kernels for a GPU by stages, and decides which kernels of a stage are launched together: a launch costs as
// much as a small kernel. A kernel comes one stage after the last one that it depends on: that writes what it reads or
// writes, or reads what it writes, or that it must come after; collectives and waits keep their places. Within a stage
// the order stays as it was, but kernels of one launch become neighbours, and those whose blocks have most work come
// first.
//
// In a launch every block has as much shared memory as the kernel that needs most, and so fewer blocks run at a time.
// So a kernel joins a launch with large products only if all blocks of both fit on the GPU at once, or if one of the
// two has few blocks. Nor do kernels with large blocks of threads join products: there are not enough registers for
// them.
//
// May run when the kernels are final, before the memory planner, which lets buffers share memory only if they are used
// in different stages. Promises the same bits, a stage and a launch for every kernel, and that the kernels of a launch
// are neighbours. Refuses to put into one launch with others: library calls, attention, and kernels that together have
// more arguments than a launch can take (Gpu::most_arguments). Kernels that write the same buffer share a stage only if
// they certainly write different slices of it.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module order_stages(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
