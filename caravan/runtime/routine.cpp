#include <algorithm>
#include <chrono>
#include <limits>

#include "caravan/ir/print.h"
#include "caravan/plan/profile.h"
#include "caravan/runtime/context_impl.h"
#include "caravan/runtime/devices.h"

namespace caravan {

void Routine::bind(const IndexValues& values) {
  const ir::Program& program = impl_->plan->program;
  std::vector<int64_t>& symbols = impl_->symbols;
  for (size_t s = 0; s < symbols.size(); ++s) {
    bool bound = false;
    for (const auto& [index, value] : values)
      if (index.name() == program.symbols[s].name) bound = true, symbols[s] = value;
    if (!bound)
      throw StateError("the index `" + program.symbols[s].name + "` is not bound; run it with {{" +
                       program.symbols[s].name + ", value}}.");
  }
}

void Routine::run(const IndexValues& values, Source where) {
  const WrittenAt at(where);
  const Context::Impl::Use use(*impl_->context);
  bind(values);
  impl_->check_ready();
  try {
    impl_->executable->run(impl_->symbols);
  } catch (const std::bad_alloc&) {
    throw BackendError("there is not enough memory to run `" + impl_->plan->program.name + "` on " +
                       impl_->context->device->name() + ".");
  }
  impl_->note_run();
}

void Routine::run_steps(int64_t steps, const IndexValues& first, Source where) {
  const WrittenAt at(where);
  const Context::Impl::Use use(*impl_->context);
  bind(first);
  if (steps < 0) throw StateError("`run_steps` was asked for " + std::to_string(steps) + " steps.");
  if (steps == 0) return;
  for (size_t k = 0; k < impl_->symbols.size(); ++k)
    if (impl_->ranges[k] == 0 && impl_->symbols[k] > std::numeric_limits<int64_t>::max() - steps)
      throw StateError("`run_steps` of " + std::to_string(steps) + " steps would take the index `" + impl_->indices[k] +
                       "` from " + std::to_string(impl_->symbols[k]) + " beyond the largest number there is.");
  impl_->check_ready();
  impl_->executable->run_steps(steps, impl_->symbols, impl_->ranges);
  impl_->note_run();
}

Array Routine::read(const Tensor& observed, Source where) const {
  const WrittenAt at(where);
  impl_->context->check_unused();
  return impl_->executable->observed(observed_at(observed));
}

size_t Routine::observed_at(const Tensor& observed) const {
  for (size_t i = 0; i < impl_->observed.size(); ++i) {
    if (!impl_->observed[i].same_as(observed)) continue;
    if (!impl_->ran)
      throw StateError("`" + observed.node().label + "` has no value yet: run the routine before reading it.");
    return i;
  }
  throw StateError(
      "`" + describe(observed) + "` (" + caravan::to_string(observed.node().where) +
          ") is not observed by this program; add `& observe(tensor)` to it, or use Context::read for a state.",
      observed.node().where);
}

const std::vector<std::string>& Routine::indices() const { return impl_->indices; }
std::string Routine::to_string() const { return ir::readable(impl_->plan->program); }
const plan::Plan& Routine::plan() const {
  const plan::Plan& needed = *impl_->plan;
  if (needed.made) return needed;
  if (!impl_->shown) {
    const bool interpreted = !impl_->context->device->target();
    const ContextOptions& options = impl_->context->options;
    impl_->shown = backend::plan_for(interpreted ? target_of(options, options.plans_for) : needed.target,
                                     needed.program, needed.options);
  }
  return *impl_->shown;
}
plan::Profile Routine::profile(const ProfileOptions& options, Source where) {
  const WrittenAt at(where);
  const Context::Impl::Use use(*impl_->context);
  using Clock = std::chrono::steady_clock;
  bind(options.first);
  if (options.steps < 0) throw StateError("`profile` was asked for " + std::to_string(options.steps) + " steps.");
  impl_->check_ready();
  backend::Executable& executable = *impl_->executable;
  executable.finish_compiling();
  auto untimed = [&](int64_t steps) {  // nanoseconds
    const auto start = Clock::now();
    executable.run_steps(steps, impl_->symbols, impl_->ranges);
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  };
  const auto first = executable.run_timed(1, impl_->symbols, impl_->ranges);  // compiles, and touches all memory
  if (!first)
    throw BackendError("the device `" + impl_->context->device->name() +
                       "` does not run kernels, so there is nothing to time; use the device `cpu`.");
  int64_t steps = options.steps;
  if (steps == 0) {  // half of the time for steps with the clock, half for those without
    constexpr double kHalf = 0.25e9;
    int64_t tried = 1;
    double spent = untimed(tried);
    while (spent < kHalf / 100) spent = untimed(tried *= 4);
    steps = std::max<int64_t>(1, int64_t(kHalf / spent * double(tried)));
  }
  std::vector<double> times(first->size(), 0);
  double whole = 0;
  Exchanged exchanged;
  constexpr int64_t kRounds = 8;  // in turn, so that what disturbs one kind disturbs the other
  for (int64_t done = 0, round = 1; round <= kRounds; ++round) {
    const int64_t some = steps * round / kRounds - done;
    if (some == 0) continue;
    const std::vector<double> spent = *executable.run_timed(some, impl_->symbols, impl_->ranges);
    for (size_t k = 0; k < times.size(); ++k) times[k] += spent[k] / double(steps);
    impl_->context->device->take_exchanged();
    whole += untimed(some) / double(steps);
    const Exchanged now = impl_->context->device->take_exchanged();
    exchanged.seconds += now.seconds, exchanged.waited += now.waited, exchanged.bytes += now.bytes;
    done += some;
  }
  impl_->note_run();
  plan::Profile out = plan::make_profile(plan(), times, impl_->context->device->peaks().value_or(Peaks{}));
  out.steps = steps, out.step_microseconds = whole / 1e3;
  out.exchange_microseconds = exchanged.seconds / double(steps) * 1e6;
  out.hidden_exchange = exchanged.hidden();
  out.exchanged_bytes = exchanged.bytes / steps;
  return out;
}
RoutineReport Routine::report() const {
  backend::Report report = impl_->executable->report();
  return {report.arena_bytes, report.kernels, std::move(report.sources), report.from_cache,
          std::move(report.quick_code)};
}
void Routine::finish_compiling() {
  const Context::Impl::Use use(*impl_->context);
  impl_->executable->finish_compiling();
}

const Inference& inference_of(const Routine& routine) { return routine.impl_->inference; }

}  // namespace caravan
