// Stores a tensor in the narrower precision that its values have anyway:
//
//     g:f32[b, o] = f32(bf16(d[b, o] * w[o]))        becomes     g:bf16[b, o] = bf16(d[b, o] * w[o])
//     s[o] += g[b, o]                                            s[o] += f32(g[b, o])
//     y[b, i] += bf16(g[b, o]) * v[o, i]                         y[b, i] += g[b, o] * v[o, i]
//
// Gradients of layers that compute in bf16 look like this. It halves their memory and the bytes that their readers
// move.
//
// May run on any verified program, and finds most after inlining. Promises the same bits. Refuses tensors that are
// observed or assigned to a state, whose precision the user chose.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program store_narrow(const ir::Program& program);

}  // namespace caravan::optimize
