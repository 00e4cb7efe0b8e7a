// Random orders that depend on their names alone, so that they can be had again.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace caravan::data {

// A random order of 0..n-1 (Fisher-Yates), a function of these four alone.
std::vector<int64_t> permutation(int64_t n, uint64_t seed, std::string_view stream, uint64_t step = 0);

}  // namespace caravan::data
