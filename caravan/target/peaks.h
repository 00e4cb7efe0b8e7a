// The best rates that were measured on a machine. A kernel's time is compared with the time that they allow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace caravan {

struct Peaks {
  double flops = 0;  // multiplications and additions of f32 per second, on all threads
  struct Memory {
    int64_t bytes = 0;     // the largest working set for which it holds
    double bandwidth = 0;  // bytes per second, read and written, of a copy or an update in place
  };
  std::vector<Memory> memory;  // each cache, then main memory, in ascending order of size

  double bandwidth(int64_t bytes) const {
    for (const Memory& level : memory)
      if (bytes <= level.bytes) return level.bandwidth;
    return memory.empty() ? 0 : memory.back().bandwidth;
  }
  // The least time for this many operations and bytes by the roofline model: the longer of the time to compute and the
  // time to move the bytes. 0 if neither rate is known.
  double seconds(int64_t operations, int64_t bytes) const {
    const double computing = flops > 0 ? double(operations) / flops : 0, rate = bandwidth(bytes);
    return std::max(computing, rate > 0 ? double(bytes) / rate : 0);
  }
};

}  // namespace caravan
