// How long a step of a workload takes, how long it takes to compile, and how much memory it needs.
#pragma once

#include "apps/bench/workload.h"
#include "caravan/backend/backend.h"

namespace caravan::bench {

// Microseconds a step: the median of all samples, their quartiles, the least and the most.
struct Timing {
  double median = 0, low = 0, high = 0, min = 0, max = 0;
  int samples = 0;
  double spread() const { return (high - low) / 2 / median; }  // half the distance of the quartiles, of the median
};
Timing timing(std::vector<double> microseconds);  // of at least one sample

struct Measurement {
  Timing range;                          // in a range of steps: Routine::run_steps
  Timing call;                           // one by one: Routine::run
  std::optional<double> cold_seconds{};  // to compile, and to set initial values; none if it was in the cache
  std::optional<double> best_seconds{};  // until the best code was ready, if the step could begin on other code before
  double cached_seconds = 0;             // the same with the compiled code in the cache
  int64_t arena_bytes = 0;               // what the step computes, beside states and data
  int64_t live_bytes = 0;                // of it, the most that is needed at a time: the arena cannot be smaller
  int64_t memory_bytes = 0;              // of the arena, the states and the data: what the device holds
  std::optional<int64_t> peak_bytes{};   // most memory of the process while it compiled and ran; none: not known
  int kernels = 0;
};

struct MeasureOptions {
  double seconds = 1;  // of samples; slow steps take longer, because there are at least three of each kind
  int threads = 0;     // 0: all
  std::string device = "cpu";
  bool tf32 = false;                 // ContextOptions::tf32
  bool quick_start = true;           // ContextOptions::quick_start
  int64_t memory_limit = 0;          // ContextOptions::memory_limit
  std::string cache{};               // folder of compiled code; empty: a new one, so that the cold time is measured
  std::vector<std::string> flags{};  // ContextOptions::compiler_flags
};
Measurement measure(const Workload& workload, const MeasureOptions& options);

// Multiplications and additions of f32 a second that a device reaches at best.
double peak_flops(backend::Device& device);

}  // namespace caravan::bench
