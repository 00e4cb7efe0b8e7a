// From accumulations to loops: one kernel each, with the accumulator in a register where the write map allows it.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::lower {

// How an accumulation writes, which decides the shape of its loops.
struct WriteForm {
  bool injective = false;   // each axis is constant or one iterator of its own: every element is written by one combination
  bool covers = false;      // ... and every element of the target is written
  std::vector<bool> outer;  // by iterator: does it appear in the write map
};
WriteForm write_form(const ir::Program& program, const ir::Accumulation& accumulation);

loop::Module lower(const ir::Program& program);

}  // namespace caravan::lower
