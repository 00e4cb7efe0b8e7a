// Stores a large tensor over another one that is read for the last time, so that the memory of one is enough for both:
//
//     for b < 32768:                                      for b < 32768:
//       for c < 50304:                                      for c < 50304:
//         r0 max= x[50304*b + c]               becomes        r0 max= x[50304*b + c]
//       for c < 50304:                                      for c < 50304:
//         r1 = x[50304*b + c]                                 r1 = x[50304*b + c]
//         y[50304*b + c] = exp(r1 - r0)                       x[50304*b + c] = exp(r1 - r0)
//
// In this way the gradient of the loss by the logits of a language model takes the place of the logits.
//
// May run when kernels have their final statements, and before loops are shared by threads. Promises the same bits: an
// element is read for the last time before it is overwritten, and the iterations of all loops around the store stay
// independent. Refuses tensors
//   - of less than `Gpu::least_ordered` bytes, or of different sizes or precisions;
//   - that are states, data or observed;
//   - of which the old one is used after this kernel, or the new one before it;
//   - of which the kernel reads other elements than the one that is stored, in the loop of the store or after it.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module store_over(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
