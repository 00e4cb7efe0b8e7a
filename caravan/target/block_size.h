// How large the blocks are into which a loop is cut.
#pragma once

#include <algorithm>
#include <cstdint>

namespace caravan {

// The largest divisor of the extent between most/2 and most, so that no remainder is left; `most` if there is none. A
// loop that is shorter than `most` is one block.
constexpr int64_t block_size(int64_t extent, int64_t most) {
  most = std::min(most, extent);
  for (int64_t size = most; size > most / 2; --size)
    if (extent % size == 0) return size;
  return most;
}

}  // namespace caravan
