// A recipe's steps from where its history is to an end: its last step, one asked for, an interruption, or a NaN.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "apps/model_file.h"

namespace caravan::app {

// Looks at every step's loss and new state, and names the operation that made the first number that is not finite.
// Slow: the state is copied before each step, so that the step can be run again.
class NumberCheck {
 public:
  NumberCheck(const Recipe& recipe, const Context& ctx, const ContextOptions& options);
  bool found(const IndexValues& at, double loss);  // after a step; true: the report is printed

 private:
  void keep();

  const Recipe& recipe_;
  Context ctx_;
  ContextOptions options_;
  std::map<std::string, Array> before_;
};

class Training {
 public:
  enum class End : uint8_t { finished, until, interrupted, not_finite, failed };  // failed: run() threw

  Training(const Recipe& recipe, const Routine& step, History history);

  History history;
  double seconds = 0;            // of this run, in steps
  std::function<void()> save{};  // called about every `save_every` seconds
  double save_every = 60;
  std::function<double()> measure{};                    // after every epoch, for the history; empty: none
  std::function<void()> after_epoch{}, after_report{};  // a value was added to the history
  NumberCheck* check = nullptr;

  End run(int64_t until);

 private:
  bool stretch(int64_t stop);  // at least one step; false: not finite
  void end_epoch();
  void end_report();

  const Recipe& recipe_;
  Routine step_;
  bool stops_ = false;  // it was interrupted
};

}  // namespace caravan::app
