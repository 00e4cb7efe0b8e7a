// A sum of tensors, each of which is 0 outside of one slice, becomes one tensor whose slices are written in place.
// Stack and concatenation are such sums, and so is the gradient of a tensor that is used slice by slice.
//
//     a[0, i] += x[i];  b[1, i] += y[i];  s[t, i] += a[t, i] + b[t, i]     becomes     s[0, i] = x[i];  s[1, i] = y[i]
//
// Then n slices cost the memory and the time of one tensor, not of n. May run on any verified program, before anything
// is inlined. A term of the sum is such a slice iff nothing else reads it, it has the precision of the sum, and it
// writes a range of one axis and all of every other; the ranges do not overlap. What none of them writes is filled with
// 0. The sum may have other terms as well: it then adds these and the joined tensor. Several others are allowed only if
// the slices follow each other in the sum, as in u + (a + b) + v, so that the order of the additions stays the same.
//
// Promises the same bits: an element is the sum of one slice's value and zeros, whose order does not matter. Adding 0
// turns -0 into 0, and so a slice that is stored without a sum adds 0 to what it stores. Refuses ranges that depend on
// a symbol or an index tensor, and sums of any other form.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program join_parts(const ir::Program& program);

}  // namespace caravan::optimize
