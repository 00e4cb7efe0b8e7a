// How long steps on a processor are, as far as it matters to who runs many of them. In nanoseconds.
#pragma once

#include <cstdint>

namespace caravan {

// A longer step is not tried on one thread, which would take too much time and seldom be faster
// (backend/cc/thread_trial.h). An estimate.
inline constexpr double kLongStep = 2e6;

// Of a run of the trial, if many steps run in one call: long beside a reading of the clock, which takes about 20.
inline constexpr int64_t kTriedRun = 20'000;

// Between two looks at whether better code is ready, if many steps run in one call. Chosen.
inline constexpr int64_t kBetweenLooks = 10'000'000;

}  // namespace caravan
