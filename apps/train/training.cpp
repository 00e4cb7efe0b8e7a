#include "apps/train/training.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>
#include <span>
#include <utility>

#include "apps/interruption.h"
#include "apps/train/ranks.h"
#include "caravan/runtime/nonfinite.h"

namespace caravan::app {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

NumberCheck::NumberCheck(const Recipe& recipe, const Context& ctx, const ContextOptions& options)
    : recipe_(recipe), ctx_(ctx), options_(options) {
  keep();
}

void NumberCheck::keep() {
  for (const std::string& name : ctx_.names()) before_.emplace(name, ctx_.read(name));
}

bool NumberCheck::found(const IndexValues& at, double loss) {
  bool finite = std::isfinite(loss);
  std::map<std::string, Array> before;
  before.swap(before_);
  keep();
  for (const auto& [name, value] : before_)
    for (double v : value.values()) finite = finite && std::isfinite(v);
  if (finite) return false;
  Context again(options_);
  again.write(before);
  const std::optional<Nonfinite> first = find_nonfinite(recipe_.program, again, at);
  if (this_rank() != 0) return true;  // the first process says it
  std::cerr << fmt::format("caravan: at step {} ", at[1].second);
  if (first)
    std::cerr << *first;
  else
    std::cerr << "a number is not finite that is finite when every intermediate value is kept.\n";
  return true;
}

Training::Training(const Recipe& recipe, const Routine& step, History history)
    : history(std::move(history)), recipe_(recipe), step_(step) {
  // A file from before the recipe observed it has no values: the curve has a gap there.
  if (recipe.right.defined())
    this->history.right.resize(this->history.reports.size(), std::numeric_limits<double>::quiet_NaN());
}

Training::End Training::run(int64_t until) {
  const Schedule& schedule = recipe_.schedule;
  const int64_t per_epoch = schedule.steps_per_epoch();
  auto saved = Clock::now();
  while (history.step < until) {
    const int64_t to_report = schedule.report - history.step % schedule.report,
                  to_epoch = per_epoch - history.step % per_epoch;
    if (!stretch(std::min({history.step + to_report, history.step + to_epoch, until}))) return End::not_finite;
    if (history.step % per_epoch == 0) end_epoch();
    if (history.step % schedule.report == 0 || history.step == schedule.steps) end_report();
    if (stops_ && history.step < until) return End::interrupted;
    if (any_rank(save && seconds_since(saved) > save_every)) save(), saved = Clock::now();
  }
  return until < schedule.steps ? End::until : End::finished;
}

bool Training::stretch(int64_t stop) {
  const int64_t per_epoch = recipe_.schedule.steps_per_epoch();
  const auto start = Clock::now();
  IndexValues at = recipe_.at(history.step);  // kept, because a step may take less time than an allocation
  int64_t& batch = at[0].second;
  int64_t& count = at[1].second;
  do {  // one step at least: what is done at the end of an epoch or a report is never done twice
    batch = count % per_epoch;
    step_.run(at);
    double loss = 0;
    step_.read(recipe_.loss, std::span(&loss, 1));
    history.last_loss = loss;
    history.stretch += loss;
    ++history.stretch_steps;
    history.epoch += loss;
    if (recipe_.right.defined()) {
      double right = 0;
      step_.read(recipe_.right, std::span(&right, 1));
      history.stretch_right += right;
    }
    if (check && check->found(at, loss)) return false;
    history.step = ++count;
    stops_ = any_rank(Interruption::asked());  // all processes end after the same step
  } while (count < stop && !stops_);
  seconds += seconds_since(start);
  return true;
}

void Training::end_epoch() {
  history.last_epoch = std::exchange(history.epoch, 0);
  if (!measure) return;
  history.accuracies.push_back(std::numeric_limits<double>::quiet_NaN());  // stays where measuring fails
  history.accuracies.back() = measure();
  if (after_epoch) after_epoch();
}

void Training::end_report() {
  const auto steps = double(std::exchange(history.stretch_steps, 0));
  history.reports.push_back(std::exchange(history.stretch, 0) / steps);
  if (recipe_.right.defined()) history.right.push_back(std::exchange(history.stretch_right, 0) / steps);
  if (after_report) after_report();
}

}  // namespace caravan::app
