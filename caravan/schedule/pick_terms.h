// Computes the one term of a sum that is not 0, instead of all:
//
//     r0:i32 = label[b]                                  r0:i32 = label[b]
//     r1 := 0                                            r1 := 0
//     for c < 50304:                                     r2:i64 = cast r0 to i64
//       r3:i32 = index c                                 if r2 >= 0 and 50303 - r2 >= 0:
//       r4:bool = eq(r0, r3)              becomes          r3:i32 = index r2
//       r5:f32 = x[50304*b + c]                            r4:bool = eq(r0, r3)
//       r6:f32 = where(r4, r5, 0)                          r5:f32 = x[50304*b + r2]
//       r1 += r6                                           r6:f32 = where(r4, r5, 0)
//                                                          r1 += r6
//
// The cross-entropy of labels and its gradient contain such sums.
//
// May run before the order of sums is turned into loops (split_loops). Promises the same bits: the other terms are 0
// whatever the values are that are left out. Refuses loops with other statements than definitions and sums; terms that
// can be NaN or not 0 where the loop's variable is not the index; and loops that compare it with several indices.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module pick_terms(const loop::Module& module);

}  // namespace caravan::schedule
