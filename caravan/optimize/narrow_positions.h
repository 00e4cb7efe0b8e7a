// Stores the position that an argmax keeps as a small integer, where it is only compared with the position of a point.
// The gradient of a pool does that:
//
//     n:i64[b, o] argmax= x[b, 2*o + k]                                       counting b, o, k
//     dx[b, 2*o + k] = where(position == n[b, o], dy[b, o], 0)   for k < 2
//
// becomes
//
//     n:u8[b, o] argmax= x[b, 2*o + k]                                        counting k
//     dx[b, 2*o + k] = where(iota[k] == i32(n[b, o]), dy[b, o], 0)   for k < 2
//
// Where the two positions are equal, they are in the same window, so that it suffices to compare where they are in it.
// The number is a u8 if the window has at most 255 elements, and no conditions by which it could be empty (-1), or else
// an i32.
//
// May run on any verified program. Promises the same bits. Refuses positions that are observed, assigned or used in
// another way; windows whose iterators are not the last ones; and write maps that are not iterators.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program narrow_positions(const ir::Program& program);

}  // namespace caravan::optimize
