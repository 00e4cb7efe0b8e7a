// Finds numbers of the Tuning with which workloads run faster on this machine.
//
//     bench::Tuner tuner({{"moons", bench::find("moons")[0].make({})}}, {.threads = 1});
//     std::cout << to_string(tuner.run(host().tuning));  // a tuning file
//
// Starting from the given numbers, one number after another is doubled, and doubled again, as long as the workloads get
// faster. If doubling it does not help, it is halved instead. Steps with a changed number run in turn with steps with
// the best numbers so far, in one process, so that what disturbs one disturbs the other.
#pragma once

#include "apps/bench/workload.h"
#include "caravan/base/scratch.h"
#include "caravan/target/tuning_file.h"

namespace caravan::bench {

struct NamedWorkload {
  std::string name;
  Workload workload;
};

// How fast steps are with one tuning and with another.
struct Comparison {
  struct Row {
    std::string name;              // of the workload
    double before = 0, after = 0;  // median microseconds of a step
    double speed = 1;              // the median of before / after over all pairs of samples: 1.1 is 1.1 times as fast
  };
  std::vector<Row> rows;  // only the workloads for which the two tunings give different code
  double speed = 1;       // the geometric mean over all workloads
};

// A change of one number.
struct Trial {
  size_t index = 0;  // of the number, among Tuner::numbers
  std::string number;
  int64_t from = 0, to = 0;
  Comparison comparison{};
  bool kept = false;  // because it was faster by more than kLeastGain, in two measurements
};
inline constexpr double kLeastGain = 0.02;  // smaller differences also come from where buffers lie in memory

struct TuneOptions {
  double seconds = 0.3;                // of steps, of each workload, for each comparison
  int threads = 0;                     // 0: all
  std::vector<std::string> numbers{};  // names of those to change; empty: all that a file may set
  std::function<bool()> stop{};        // asked between samples; if it says true, the tuner comes to an end
  std::function<void(const Trial&)> trying{}, tried{};  // told of each change, before and after it is measured
};

class Tuner {
 public:
  Tuner(std::vector<NamedWorkload> workloads, TuneOptions options);  // ConfigError: there is no number of such a name

  const std::vector<TuningNumber>& numbers() const { return numbers_; }          // those to change
  Tuning run(const Tuning& start);                                               // if it is stopped, the best so far
  std::optional<Comparison> compare(const Tuning& before, const Tuning& after);  // nothing if it is stopped

 private:
  enum class Direction : uint8_t { up, down };
  bool climb(Tuning& best, size_t index, Direction direction);  // was a change kept?
  bool is_stopped() const { return options_.stop && options_.stop(); }

  std::vector<NamedWorkload> workloads_;
  TuneOptions options_;
  std::vector<TuningNumber> numbers_;
  ScratchFolder cache_;  // of the code of all trials, most of which is never needed again
};

}  // namespace caravan::bench
