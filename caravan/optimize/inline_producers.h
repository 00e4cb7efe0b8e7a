// Puts the bodies of producers into their readers, so that they need no buffer and no loop of their own.
//
// May run on any verified program. A producer is inlined iff it computes each element once and writes all of them, and
// the reader
//   - reads it for nothing more than a copy (a slice, a transposition, a number that is computed from numbers), or
//   - has no more points than the producer has elements, and the producer has no other reader, or is cheap and reads so
//     little that storing it would move more bytes; a reduction does not recompute from several operands what is stored
//     for another reader anyway.
// Promises the same bits: the value is cast to the precision that the producer's buffer had.
// Refuses reductions; conditions, padding and index tensors in the producer (those would need a guarded load); a
// producer that merges axes or writes them backwards; one that is an index tensor of its reader; bodies that would grow
// beyond kLongestBody; and maps whose range the verifier could not prove any more. Random bits count as expensive.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

inline constexpr size_t kLongestBody = 200;  // entries

ir::Program inline_producers(const ir::Program& program);

}  // namespace caravan::optimize
