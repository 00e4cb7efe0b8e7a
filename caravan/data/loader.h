#pragma once
#include <cstdint>
#include <vector>
namespace caravan::data { std::vector<int64_t> permutation(int64_t count, uint64_t seed); }
