// What a machine reaches at best, as measured: what kernels are compared with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace caravan {

struct Peaks {
  double flops = 0;  // a second: multiplications and additions of f32 on all threads
  struct Memory {
    int64_t bytes = 0;     // that are in use
    double bandwidth = 0;  // bytes a second, read and written, of a copy within so many
  };
  std::vector<Memory> memory;  // each cache, then main memory; ascending

  double bandwidth(int64_t bytes) const {
    for (const Memory& level : memory)
      if (bytes <= level.bytes) return level.bandwidth;
    return memory.empty() ? 0 : memory.back().bandwidth;
  }
  // The least time for so many operations and bytes: the longer of the two (the roofline model). 0: nothing is known.
  double seconds(int64_t operations, int64_t bytes) const {
    const double computing = flops > 0 ? double(operations) / flops : 0, rate = bandwidth(bytes);
    return std::max(computing, rate > 0 ? double(bytes) / rate : 0);
  }
};

}  // namespace caravan
