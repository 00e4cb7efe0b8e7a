// Divides the functions of a program into texts that are compiled at the same time.
#pragma once

#include <cstddef>
#include <vector>

namespace caravan::codegen {

// Groups of functions, by their numbers, each of at most `most` functions and of about the same compile time, the
// longest first. One group if all of them together compile quickly. The result depends on the lengths alone, not on the
// machine, because the texts are part of the key in the cache of compiled code.
std::vector<std::vector<size_t>> balanced(const std::vector<size_t>& lengths, size_t most);

}  // namespace caravan::codegen
