// Rounds a value that is stored as bf16 or f16 once. The store rounds it, and so a cast before it does nothing:
//
//     r1:f32 = cast r0 to bf16              becomes              y[i] = r0         (y is bf16)
//     y[i] = r1
//
// Compilers do not see that rounding twice is rounding once. On a GPU, kernels such as the gradient of the loss are
// limited by their instructions.
//
// May run at any time after lowering. Promises the same bits. Refuses casts of values that are not f32, which the store
// would round in another way, and casts whose results are used elsewhere as well: these have to be computed anyway.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::schedule {

loop::Module round_once(const loop::Module& module);

}  // namespace caravan::schedule
