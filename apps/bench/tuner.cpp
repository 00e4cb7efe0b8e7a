#include "apps/bench/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "apps/bench/measure.h"
#include "apps/unknown_name.h"
#include "caravan/backend/cc/device.h"
#include "caravan/base/error.h"
#include "caravan/base/folders.h"

namespace caravan::bench {

namespace {

constexpr double kShortestSample = 0.01;  // seconds, long beside the tick of a scheduler
constexpr size_t kLeastPairs = 5;
constexpr int kMostWithoutEffect = 3;  // changes of a number in one direction that change no code

// A workload, compiled with a tuning, with states of its own.
class Steps {
 public:
  Steps(const Workload& workload, const Tuning& tuning, int threads, const std::string& cache)
      : workload_(workload),
        ctx_({.seed = 1,
              .make_device =
                  [&](const ContextOptions& options) {
                    cc::DeviceOptions device;
                    device.seed = options.seed, device.threads = threads, device.tuning = tuning;
                    device.compiler.cache = cache;
                    return cc::make_device(device);
                  }}),
        routine_(ctx_.compile(workload.program)) {}

  std::vector<std::string> code() const { return routine_.report().sources; }  // names that are hashes of the code
  double seconds(int64_t steps) {
    const auto start = std::chrono::steady_clock::now();
    routine_.run_steps(steps, workload_.at(at_));
    at_ += steps;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  const Workload& workload_;
  Context ctx_;
  Routine routine_;
  int64_t at_ = 0;
};

std::vector<TuningNumber> numbers_named(const std::vector<std::string>& names) {
  const auto all = tuning_numbers();
  if (names.empty()) return {all.begin(), all.end()};
  std::vector<TuningNumber> out;
  for (const std::string& name : names) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const TuningNumber& n) { return name == n.name; });
    if (found == all.end()) {
      std::vector<std::string> known;
      for (const TuningNumber& number : all) known.emplace_back(number.name);
      throw ConfigError(app::unknown_name("number", name, known));
    }
    out.push_back(*found);
  }
  return out;
}

}  // namespace

Tuner::Tuner(std::vector<NamedWorkload> workloads, TuneOptions options)
    : workloads_(std::move(workloads)),
      options_(std::move(options)),
      numbers_(numbers_named(options_.numbers)),
      cache_(temporary_folder(), "caravan-tune-") {}

std::optional<Comparison> Tuner::compare(const Tuning& before, const Tuning& after) try {
  Comparison out;
  double logarithms = 0;
  for (const NamedWorkload& w : workloads_) {
    if (is_stopped()) return std::nullopt;
    Steps old(w.workload, before, options_.threads, cache_.path()),
        changed(w.workload, after, options_.threads, cache_.path());
    if (old.code() == changed.code()) continue;
    int64_t steps = 1;
    old.seconds(steps), changed.seconds(steps);  // touches all memory
    while (std::min(old.seconds(steps), changed.seconds(steps)) < kShortestSample) steps *= 2;
    std::vector<double> times_before, times_after, speeds;
    for (double spent = 0; spent < options_.seconds || speeds.size() < kLeastPairs;) {
      if (is_stopped()) return std::nullopt;
      double time = 0, time_changed = 0;
      if (speeds.size() % 2 == 0)
        time = old.seconds(steps), time_changed = changed.seconds(steps);
      else
        time_changed = changed.seconds(steps), time = old.seconds(steps);
      times_before.push_back(1e6 * time / double(steps)), times_after.push_back(1e6 * time_changed / double(steps));
      speeds.push_back(time / time_changed);
      spent += time + time_changed;
    }
    out.rows.push_back({w.name, timing(times_before).median, timing(times_after).median, timing(speeds).median});
    logarithms += std::log(out.rows.back().speed);
  }
  out.speed = std::exp(logarithms / double(workloads_.size()));
  return out;
} catch (const BackendError&) {
  if (is_stopped()) return std::nullopt;  // Ctrl-C ends the C compiler, too
  throw;
}

bool Tuner::climb(Tuning& best, size_t index, Direction direction) {
  const TuningNumber& number = numbers_[index];
  bool kept = false;
  Tuning next = best;
  for (int without_effect = 0; without_effect < kMostWithoutEffect;) {
    int64_t& value = next.*number.number;
    const int64_t from = value;
    value = direction == Direction::up ? 2 * value : value / 2;
    if (value == from || !number.allows(value)) break;
    Trial trial{.index = index, .number = number.name, .from = best.*number.number, .to = value};
    if (options_.trying) options_.trying(trial);
    auto is_faster = [&] {
      const std::optional<Comparison> found = compare(best, next);
      if (found) trial.comparison = *found;
      return found && found->speed > 1 + kLeastGain;
    };
    trial.kept = is_faster() && is_faster();
    if (is_stopped() && !trial.kept) break;
    if (options_.tried) options_.tried(trial);
    if (trial.kept)
      best = next, kept = true, without_effect = 0;
    else if (trial.comparison.rows.empty())
      ++without_effect;
    else
      break;
  }
  return kept;
}

Tuning Tuner::run(const Tuning& start) {
  Tuning best = start;
  for (size_t i = 0; i < numbers_.size() && !is_stopped(); ++i)
    if (!climb(best, i, Direction::up)) climb(best, i, Direction::down);
  return best;
}

}  // namespace caravan::bench
