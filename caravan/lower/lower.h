// From accumulations to loops: one kernel each, with the accumulator in a register where the write map allows it.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::lower {

// One kernel an accumulation, in order. A domain that the program states becomes a guard: conditions first, then index
// tensors one after the other, each inside the guards that keep its own access in range.
loop::Module lower(const ir::Program& program);

}  // namespace caravan::lower
