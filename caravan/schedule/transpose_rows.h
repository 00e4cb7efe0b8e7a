// Computes short sums and maxima over the rows of a matrix, as in a softmax, for many rows at once, each row in a lane
// of a vector:
//
//     for b < 1024:                           for b_block < 64:
//       max := -inf                             for b_in < 16: for c < 28:  rows[16*c + b_in] = x[28*(16*b_block + b_in) + c]
//       for c < 28:                             for b_in < 16 vector:
//         max max= x[28*b + c]                    max := -inf
//       sum := 0                     becomes      for c < 28:
//       for c < 28:                                 max max= rows[16*c + b_in]
//         sum += exp(x[28*b + c] - max)           sum := 0
//       y[b] = sum                                for c < 28:
//                                                   sum += exp(rows[16*c + b_in] - max)
//                                                 y[16*b_block + b_in] = sum
//
// One row at a time is a chain of additions or comparisons, each of which waits for the one before, with a scalar call
// of exp for each. A long sum has partial sums that fill a vector; a short one has not. What the inner loops store is
// transposed back. Rows that fill no vector stay as they are.
//
// Runs after fuse, so that all sums over a row share the transposed copy, and before tile_transposes, which makes these
// copies in registers. Promises the same bits: no sum changes its order. Refuses loops that could use vectors as they
// are, bodies with nested loops or conditions, sums of products (their operands would be copied for one multiplication
// each), rows that are written and read at several places, f16 and bf16, and index tensors.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module transpose_rows(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
