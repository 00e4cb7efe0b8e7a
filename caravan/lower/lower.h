// Lowers accumulations to loops, with the accumulator in a register where the write map allows it.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::lower {

// Makes one kernel for each accumulation, in order. Its domain becomes guards: first the conditions of `where`, then
// the bounds of values of index tensors. Each index tensor is read inside the guards that keep its own access in range.
loop::Module lower(const ir::Program& program);

}  // namespace caravan::lower
