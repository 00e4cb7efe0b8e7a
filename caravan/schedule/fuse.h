// Fuses kernels whose outer loops have the same iterations, so that the second finds what the first stores in a
// register or in the cache. Examples are a matrix product with the bias and activation after it, the accumulations of a
// softmax or of a norm, the max of a window with the position of that max, and a gradient with the update of its
// parameter. On a processor, kernels without loops are also merged if they read the same state.
//
// May run after lowering. A kernel is merged into the last earlier kernel that it depends on. If it depends on none, it
// is merged into one of the last kernels that read the same elements. No kernel between the two may have to come before
// it. The merged kernel is then merged further in the same way.
//
// The two kernels share as many outer loops of equal extents as is legal. It is legal if every element that both touch,
// and that one of them writes, belongs to the same iteration of the shared loops in both: the offsets have the same
// strides along the shared loops, and the elements of different iterations are disjoint.
//
// Promises the same bits and the same stores. Refuses
//   - kernels whose elements do not match in this way, and offsets through index tensors;
//   - to leave more than one loop of either kernel inside of the shared loops, unless both share all their outer loops:
//     one operand of a matrix product would be read again from memory in each iteration;
//   - a loop whose iterations are computed as vectors with one that has stride 1 only in its inner loops;
//   - an elementary function, such as exp, with sums that have lanes: their vectors run along the terms, so that sums
//     are computed one after the other, and the function would be computed for one sum at a time, not in vectors;
//   - to move the new value of a state before a reader of the old one, or into the loop of a reader that reads other
//     elements than are stored: then it could not be stored in place;
//   - to move a kernel before what it must come `after`;
//   - two contractions: each is computed in tiles of its own;
//   - kernels of more than CompileTimes::most_accumulations accumulations.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

// How many earlier kernels that read the same buffers are tried for each kernel. A bound for the time of the pass: a
// buffer that every layer reads would make it quadratic.
inline constexpr size_t kMostCandidates = 4;

loop::Module fuse(const loop::Module& module);  // for a processor
// The same for a GPU, which has no vector loops, and so without the refusals for vectors. But a kernel whose inner
// loops lanes will share, such as a sum along a row, is not merged into loops whose neighbouring iterations are
// neighbours in memory: those need neighbouring threads for neighbouring iterations.
//
// The gradient of a large weight (Gpu::least_apart) is not merged with the update, if a kernel that can run beside it
// reads the old weight: the gradient of the layer's input. Merged, the one product would wait for the other.
loop::Module fuse_for_gpu(const loop::Module& module, const Target& target);
// The same after call_products: what follows a product that a library computes has become a kernel of its own, which
// can be merged with those that read its result, such as a residual sum with the norm after it. Programs without such
// products stay as they are.
loop::Module fuse_called(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
