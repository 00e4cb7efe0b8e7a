// Who draws initial values.
#pragma once

#include <cstdint>

namespace caravan {

// The fewest initial values that a thread draws, so that starting it takes less time than they do. It draws one in some
// 4 ns, and is started in some 20 microseconds.
inline constexpr int64_t kDrawnPerThread = 1 << 14;

// The fewest that a GPU draws itself: to load the kernel for that takes it as long as a processor takes to draw these
// and to copy them there.
inline constexpr int64_t kDrawnOnGpu = 1 << 16;

}  // namespace caravan
