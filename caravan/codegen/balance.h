// Which functions of a text are compiled together.
#pragma once

#include <cstddef>
#include <vector>

namespace caravan::codegen {

// Groups of functions, by their numbers, that the C compiler takes about as long over, the longest first; at most
// `most` in each. One group where all of them together are quick. It depends on the lengths alone, not on the machine:
// the groups are part of what the cache of compiled code is asked for.
std::vector<std::vector<size_t>> balanced(const std::vector<size_t>& lengths, size_t most);

}  // namespace caravan::codegen
