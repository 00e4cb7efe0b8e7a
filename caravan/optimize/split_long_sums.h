// Computes long sums into few elements in two steps, so that all multiprocessors of a GPU have a part of them:
//
//     y[c] += x[b, h, w, c]     becomes     part[b, c] += x[b, h, w, c];  y[c] += part[b, c]
//
// One iterator of the sum is kept in the first step; a long one is divided first. The choice depends on the sizes and
// on the target alone, so the bits are the same in every run.
//
// May run after inlining, which would otherwise compute the first step again for every reader. Promises the same sums
// in another order. Refuses sums with conditions or positions, those that are scattered, and those that are short or
// many.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

ir::Program split_long_sums(const ir::Program& program, const Target& target);

}  // namespace caravan::optimize
