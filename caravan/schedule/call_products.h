// Large products of matrices for a GPU become calls of a library (cuBLASLt), which computes them faster than generated
// tiles do:
//
//     for i < 4096:                                       y[1024*row + column] = library product of
//       for o < 1024:                                       x[4096*row + term] and w[1024*term + column]
//         r0 := 0
//         for k < 4096:                        becomes    for i < 4096:
//           r0 += x[4096*i + k] * w[1024*k + o]             for o < 1024:
//         y[1024*i + o] = r0                                  r0 = y[1024*i + o]
//         z[1024*i + o] = tanh(r0)                            z[1024*i + o] = tanh(r0)
//
// The library takes factors from memory and stores the sums. So what is computed from memory for a factor is first
// stored in a buffer of its own, once for all products that have the same factor, and what follows the sum becomes a
// kernel of its own. If the kernel itself stores the sum, as here, the library stores it in that buffer, else in a new
// one. The new buffer has f32, or the narrow precision of the factors, if everything that reads the sum rounds it to
// that precision first.
//
// May run before loops are shared by threads (map_to_grid). Promises the same sums in another order. The choice depends
// on the sizes and on the target alone (Gpu::called_f32 and the others). Refuses products
//   - that are small, or for which more bytes would have to be moved than the library saves time;
//   - with guards, such as padded convolutions;
//   - of other precisions than f32, bf16 and f16, or of two different ones;
//   - whose loops over rows, columns, terms or batches do not walk through memory with one stride each.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module call_products(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
