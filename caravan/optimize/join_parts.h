// A sum of tensors that are 0 but for one part each becomes one tensor whose parts are written in place: what stack and
// concatenation are, and the gradient of a tensor that is used slice by slice.
//
//     a[0, i] += x[i];  b[1, i] += y[i];  s[t, i] += a[t, i] + b[t, i]     becomes     s[0, i] = x[i];  s[1, i] = y[i]
//
// n parts cost the memory and the time of one tensor then, not of n. May run before anything is inlined, on any
// verified program. A term of the sum is a part iff nothing else reads it, it has the precision of the sum, and it
// writes all of every axis but one, and of that one a range; the ranges do not overlap. What none of them writes is
// filled with 0. Other terms are added to the joined tensor as before, if there is one of them or if the parts stand
// side by side. Promises the same bits: an element has one part's value and zeros, in any order, and the zeros turn -0
// into 0, so a part that is a plain store adds 0 to what it stores. Refuses ranges that depend on an index, and sums of
// any other shape.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program join_parts(const ir::Program& program);

}  // namespace caravan::optimize
