// Puts the bodies of producers into their readers, so that they need no buffer and no loop of their own.
//
// May run on any verified program. A producer is inlined iff it computes each element once and writes all of them (no
// reduction, no condition, no padding: those would need a guarded load), and the reader
//   - reads it for nothing more than a copy (a slice, a transposition, a constant), or
//   - visits each element at most once, and the producer is cheap or has no other reader.
// A reduction is never inlined. The result computes the same bits: precisions are kept with casts.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::passes {

ir::Program inline_producers(const ir::Program& program);

// Drops accumulations whose results nobody needs, and merges those that are equal.
ir::Program remove_unused(const ir::Program& program);
ir::Program merge_equal(const ir::Program& program);

// Moves what only updates state behind the last reader of that state's old value, so that it can be updated in place.
ir::Program delay_updates(const ir::Program& program);

}  // namespace caravan::passes
