// Takes the max of a window from the search for its position, which keeps it anyway:
//
//     r1 := -inf                                     becomes     r3 := -inf
//     for k < 4:                                                 r4 := -1
//       r0 = x[4*o + k]                                          for k < 4:
//       r1 = max(r1, r0)                                           r2 = x[4*o + k]
//     y[o] = r1                                                    (r3, r4) argmax= r2 at k
//     r3 := 0                                                    y[o] = r3
//     r4 := -1                                                   n[o] = r4
//     for k < 4:
//       r2 = x[4*o + k]
//       (r3, r4) argmax= r2 at k
//     n[o] = r4
//
// May run after fuse, which brings both into one loop. Promises the same bits: of equal values both keep the first one,
// and NaN beats everything. Where there is no element, the max is -inf, from which the search may start, because it
// takes the first element anyway. Refuses a max and a search over other elements, or whose elements are written between
// them, and minima of a search for a maximum.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module keep_best(const loop::Module& module);

}  // namespace caravan::schedule
