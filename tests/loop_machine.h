// Runs kernels statement by statement, as caravan/loop/loop.h says what they mean: the oracle for passes over loops
// that promise the same bits. It needs no compiler and no GPU, and so it also runs what only a GPU would.
#pragma once

#include <vector>

#include "caravan/loop/loop.h"
#include "caravan/plan/memory.h"

namespace caravan {

// The elements of each buffer after all kernels ran once, in order. States begin with numbers that depend on their name
// and on the element alone, and random values depend on the leaf, the element and the step; what nobody has written is
// NaN. Calls of products add the terms in order. Refuses loops that threads share, attention and collectives.
std::vector<std::vector<double>> run_loops(const loop::Module& module, const std::vector<int64_t>& symbols = {},
                                           const plan::MemoryPlan* plan = nullptr);

}  // namespace caravan
