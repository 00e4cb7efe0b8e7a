// Random orders that depend on their names alone, so that they can be had again.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace caravan::data {

// A random order of 0..n-1 (Fisher-Yates), a function of these four alone.
std::vector<int64_t> permutation(int64_t n, uint64_t seed, std::string_view stream, uint64_t step = 0);

// Parts of a random order of 0..n-1, without overlap; data::split (loader.h) says how.
std::vector<std::vector<int64_t>> split_order(int64_t n, const std::vector<double>& fractions, uint64_t seed);

}  // namespace caravan::data
