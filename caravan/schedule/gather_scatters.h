// For a GPU: sums into a small table become sums that threads can share (scatter_nest.h). If the kernel has set the
// whole table to 0 before, it now stores the sums, in the order of the table in memory, so that the update of the table
// can be fused with it.
//
// May run after lowering, before kernels are fused. Changes kernels that fill a small table and then add to it. Every
// element is added up in the order of the terms. Refuses large tables, which gpu_scatters.h maps to threads later,
// nests with other statements, and indices without a known range.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module gather_scatters(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
