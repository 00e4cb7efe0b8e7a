// Is a short step faster on all threads than on one?
//
// Where two processors are far from each other, a thread waits longer for what the other one has computed than it would
// take to compute it itself: on two virtual processors of different chips, a cache line takes 60 ns and a step of
// `names-wavenet` 130 us on two threads, but 116 us on one. No estimate that is made without the machine knows that. So
// the first runs of a program are made on all threads and on one, a few of each in turn, and what was faster stays. The
// results do not depend on it: they have the same bits with any number of threads. A long step (kLongStep) is not
// tried on one thread, which would take too much time and seldom be faster.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "caravan/target/step_times.h"

namespace caravan::cc {

class ThreadTrial {
 public:
  bool is_over() const { return runs_ == kRuns; }
  // Do all threads share the loops of the next run?
  bool shares() const { return is_over() ? shared_ <= alone_ : runs_ / kInTurn % 2 == 0; }
  // After a run of so many steps, which shared its loops as `shares` said.
  void note(int64_t steps, int64_t nanoseconds) {
    if (is_over()) return;
    const double step = double(nanoseconds) / double(steps);
    if (runs_ % kInTurn > 0) {  // the first one moves data from the caches of the other threads
      double& least = shares() ? shared_ : alone_;
      least = std::min(least, step);
    }
    ++runs_;
    if (runs_ == kInTurn && shared_ > kLongStep) runs_ = kRuns;
  }

 private:
  // Runs of one kind before it is the other one's turn, the first of which does not count; four turns of each kind.
  static constexpr int kInTurn = 4, kRuns = 2 * 4 * kInTurn;

  double shared_ = std::numeric_limits<double>::infinity(), alone_ = shared_;  // nanoseconds of the fastest step
  int runs_ = 0;
};

}  // namespace caravan::cc
