// What a reader is told of a run before its first step and while it goes on.
#pragma once

#include <optional>

#include "apps/progress.h"
#include "apps/train/prepare.h"
#include "apps/train/training.h"

namespace caravan::app {

// The recipe's learning rate by step, computed by the interpreter.
class Rates {
 public:
  explicit Rates(const Recipe& recipe);
  double at(int64_t step);

 private:
  const Recipe& recipe_;
  Context ctx_;
  Routine routine_;
};

int64_t parameter_count(const Prepared& run);  // the numbers that its model learns

void introduce(const Prepared& run);  // what the run is: recipe, data, model, rate, device

class Watch {
 public:
  Watch(const Prepared& run, const Training& training);
  void after_epoch();   // a line that stays
  void after_report();  // the line that is redrawn, and the lines of --log 2
  void end() { progress_.clear(); }

 private:
  std::vector<std::string> notes() const;

  const Prepared& run_;
  const Training& training_;
  Progress progress_;
  std::optional<Rates> rates_;
};

// "epoch 3: accuracy 97.12 % on the test images; the paper has 91.00 %"
std::string epoch_line(const Measure& measure, const Recipe& recipe, const std::vector<double>& values, size_t epoch);

}  // namespace caravan::app
