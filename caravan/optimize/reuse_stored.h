// Replaces what a formula computes again by a load of the tensor in which it is stored anyway:
//
//     t[b, o] = tanh(h[b, o] + bias[o])                       t[b, o] = tanh(h[b, o] + bias[o])
//     d[b, o] = g[b, o] * (1 - square(                becomes
//                   tanh(h[b, o] + bias[o])))                 d[b, o] = g[b, o] * (1 - square(t[b, o]))
//
// Only for what takes longer to compute than to load: formulas with an elementary function such as tanh or exp. May run
// on any verified program, after inline_producers, which has decided what is stored. Promises the same bits. Refuses
// tensors of f16 and bf16, whose stored values are rounded.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program reuse_stored(const ir::Program& program);

}  // namespace caravan::optimize
