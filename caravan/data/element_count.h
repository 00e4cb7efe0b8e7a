// How many elements a header promises.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace caravan::data {

// The product of the sizes, or nothing where an array of them could not be counted, in whatever precision.
inline std::optional<int64_t> element_count(const std::vector<int64_t>& sizes) {
  constexpr int64_t kWidest = 8;  // bytes; counted as an array counts them, so that it never refuses what we accept
  int64_t bytes = kWidest;
  for (const int64_t size : sizes)
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes / kWidest;
}

}  // namespace caravan::data
