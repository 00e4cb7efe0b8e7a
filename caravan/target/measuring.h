// How the best rates of a processor (peaks.h) are measured.
#pragma once

#include <cstdint>

namespace caravan {

// Sums that are computed at the same time, each in a vector register: they hide the latency of an addition on every
// current processor.
inline constexpr int kMeasuredSums = 12;

// Most bytes that are copied, however large the caches are. Chosen.
inline constexpr int64_t kMostCopied = int64_t(128) << 20;

// Seconds of a trial, of which the best of a few counts. Chosen.
inline constexpr double kMeasuredTrial = 4e-3;

}  // namespace caravan
