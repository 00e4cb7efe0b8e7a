// Finds sums of products in kernels for a GPU, and marks their loops, so that they are computed in tiles:
//
//     for b < 4:                                          for b < 4 grid:
//       for i < 256:                                        for i < 256 rows:
//         for o < 384:                                        for o < 384 columns:
//           r0 := 0                                             r0 := 0
//           for k < 64:                          becomes        for k < 64 terms:
//             r0 += x[b, i, k] * w[b, k, o]                       r0 += x[b, i, k] * w[b, k, o]
//           y[b, i, o] = tanh(r0)                               y[b, i, o] = tanh(r0)
//
// Loops that both factors depend on stay grid loops, each of whose iterations is a product of its own. Those of the
// first factor become rows, those of the second columns. A block of threads takes a tile of rows and columns: it brings
// the factors of some terms into shared memory, where each is used many times. What computes a factor from memory is
// computed on the way there; what is computed from the sum follows it in registers.
//
// May run on kernels whose independent outer loops are known (map_to_grid). The tile depends on the sizes and on the
// target alone. Where a guard around the product does not hold, as at the border of a padded convolution, one factor
// counts as 0; if the other one is infinite or NaN, the sum is NaN there. Refuses kernels with another sum or loop
// beside the one sum of products, and products that are too small.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

// Marks the kernel, whose nest of independent outer loops is `outer`, and returns true; leaves it as it is if it is no
// such product. `outer` is not valid afterwards.
bool mark_product(const loop::Module& module, loop::Kernel& kernel, const std::vector<loop::For*>& outer,
                  const Target& target);

}  // namespace caravan::schedule
