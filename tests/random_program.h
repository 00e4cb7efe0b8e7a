// Programs that are drawn at random: thirty nodes of all kinds, assignments, gradients.
#pragma once

#include <caravan/caravan.h>

namespace caravan {

// Of so many seeds that follow each other, one gives a program that is large enough for threads to share its loops.
inline constexpr int kSizesOfPrograms = 16;

// Values stay within a few units, so that nothing overflows and no rounding grows without bound. `smooth`: nothing
// jumps, so that a rounding of f32 stays one.
Program random_program(uint32_t seed, bool smooth);

}  // namespace caravan
