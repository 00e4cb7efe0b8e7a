// Splits a kernel at its outer loops, for passes that hand the iterations of one outer loop to many threads.
#pragma once

#include <functional>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::schedule {

// One kernel for each outer loop for which `choose` holds, which may change the loop, and one for the statements
// between two of them. Each repeats the definitions that come before it. The kernel itself if there is no such loop, or
// if its other statements must stay together.
std::vector<loop::Kernel> outer_loops(const loop::Kernel& kernel, const std::function<bool(loop::For&)>& choose);

}  // namespace caravan::schedule
