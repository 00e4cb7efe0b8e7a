// From accumulations to loops: one kernel each, with the accumulator in a register where the write map allows it.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::lower {

// How an accumulation writes, which decides the shape of its loops.
struct WriteForm {
  // true iff every iterator that the write map mentions has an axis of its own (that iterator, constants and symbols),
  // and no index tensor takes part: then points that differ in those iterators write different elements. Only over such
  // iterators may a loop be parallel, and only then can the total be kept in a register.
  bool injective = false;
  bool covers = false;      // true iff injective and every element of the target is written
  std::vector<bool> outer;  // by iterator: does it appear in the write map
};
WriteForm write_form(const ir::Program& program, const ir::Accumulation& accumulation);

// One kernel an accumulation, in order. A domain that the program states becomes a guard: conditions first, then index
// tensors one after the other, each inside the guards that keep its own access in range.
loop::Module lower(const ir::Program& program);

}  // namespace caravan::lower
