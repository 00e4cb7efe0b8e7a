// Makes a local array of a buffer that only one kernel uses, and of which every iteration of some outer loops uses
// elements of its own, such as the scores of one head within attention. The array has the elements of one iteration. It
// is written and read again while it is in the cache, by every thread in the same place, and takes no memory from the
// arena:
//
//     for b < 4:                                          for b < 4:
//       for h < 6:                                          for h < 6:
//         .. scores[393216*b + 1536*s + 256*h + t] = ..       .. scratch[256*s + t] = ..
//
// Runs last of the passes that change loops, because the others analyse accesses to buffers alone. Promises the same
// bits. Refuses what is observed or assigned, f16 and bf16, positions of an argmax, elements that are used under a
// condition on such an outer loop, and arrays of a kernel that together have more than Tuning::stack_elements.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module local_buffers(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
