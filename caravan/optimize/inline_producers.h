// Substitutes the body of a producer into its readers, so that the producer needs no buffer and no loop of its own.
//
// May run on any verified program. A producer is inlined iff it computes each element once and writes all of them, and
// one of these holds:
//   - The producer only copies: it is a slice, a transposition, or a number that is computed from numbers.
//   - The reader has no more points than the producer has elements, and it is the only reader. With several readers,
//     the producer must also be cheap, and inlining it must move fewer bytes than storing it.
//
// There are two exceptions for a producer of several operands that is stored anyway, because it is assigned to a state
// or because another reader has more points than it has elements. A sum, or another reduction, loads the stored value:
// that is one load instead of several. So does every reader if the producer is the only one that reads the result of a
// reduction, as in y = relu(sum + b): then the sum need not be stored.
//
// Promises the same bits: the value is cast to the precision that the producer's buffer had. Refuses producers that are
// reductions; that have conditions, padding or index tensors, which would need a guarded load; that merge axes or write
// them backwards; that are an index tensor of their reader; or whose body would make the reader's longer than
// kLongestBody. Refuses index maps whose range the verifier could no longer prove. Random bits count as expensive.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

inline constexpr size_t kLongestBody = 200;  // entries of a body

ir::Program inline_producers(const ir::Program& program);
ir::Program inline_copies(const ir::Program& program);  // those alone that only copy

}  // namespace caravan::optimize
