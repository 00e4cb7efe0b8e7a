// Who draws initial values.
#pragma once

#include <cstdint>

namespace caravan {

// The fewest initial values that a thread draws, so that starting it takes less time than they do. It draws one in some
// 4 ns, and is started in some 20 microseconds.
inline constexpr int64_t kDrawnPerThread = 1 << 14;

// The fewest elements of a state that a GPU draws itself. A processor takes about 0.3 ms for so many, with one thread;
// the kernel has to be loaded once. Chosen, not measured.
inline constexpr int64_t kDrawnOnGpu = 1 << 16;

}  // namespace caravan
