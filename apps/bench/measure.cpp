#include "apps/bench/measure.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "caravan/backend/backend.h"
#include "caravan/base/folders.h"
#include "caravan/base/scratch.h"
#include "caravan/plan/plan.h"
#include "caravan/runtime/compile_notice.h"
#include "caravan/runtime/devices.h"

namespace caravan::bench {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The most memory that this process has had since the last reset, as Linux counts it.
void reset_peak_memory() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}
std::optional<int64_t> peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (int64_t kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  return std::nullopt;
}

// Runs steps in two ways, in turn, so that what disturbs one disturbs the other.
class Samples {
 public:
  Samples(Routine& routine, const Workload& workload) : routine_(routine), workload_(workload) {}

  void take(double seconds, Measurement& out) {
    one_by_one(1);  // touches all memory
    int64_t steps = 1;
    double spent = in_a_range(steps);
    while (spent < kSample / 4) spent = in_a_range(steps *= 2);
    steps = std::max<int64_t>(1, int64_t(double(steps) * kSample / spent));
    std::vector<double> range, call;
    const auto start = Clock::now();
    while (range.size() < kLeastSamples || seconds_since(start) < seconds) {
      range.push_back(1e6 * in_a_range(steps) / double(steps));
      call.push_back(1e6 * one_by_one(steps) / double(steps));
    }
    out.range = timing(std::move(range)), out.call = timing(std::move(call));
  }

 private:
  static constexpr double kSample = 0.01;  // seconds, of steps that are shorter: long beside the tick of a scheduler
  static constexpr size_t kLeastSamples = 3;

  double in_a_range(int64_t steps) {
    const auto start = Clock::now();
    routine_.run_steps(steps, workload_.at(at_));
    at_ += steps;
    return seconds_since(start);
  }
  double one_by_one(int64_t steps) {
    const auto start = Clock::now();
    for (int64_t s = 1; s < steps; ++s) routine_.run(workload_.at(at_++));
    routine_.run_steps(1, workload_.at(at_++));  // it waits for a GPU, which `run` does not
    return seconds_since(start);
  }

  Routine& routine_;
  const Workload& workload_;
  int64_t at_ = 0;
};

}  // namespace

Timing timing(std::vector<double> microseconds) {
  std::sort(microseconds.begin(), microseconds.end());
  auto at = [&](double share) {  // between two samples, a mean of both
    const double place = share * double(microseconds.size() - 1);
    const auto below = size_t(place), above = std::min(below + 1, microseconds.size() - 1);
    return microseconds[below] + (place - double(below)) * (microseconds[above] - microseconds[below]);
  };
  return {at(0.5), at(0.25), at(0.75), microseconds.front(), microseconds.back(), int(microseconds.size())};
}

Measurement measure(const Workload& workload, const MeasureOptions& options) {
  Measurement out;
  std::optional<ScratchFolder> scratch;
  if (options.cache.empty()) scratch.emplace(temporary_folder(), "caravan-bench-");
  ContextOptions context;
  context.seed = 1;
  context.device = options.device;
  context.threads = options.threads;
  context.quick_start = options.quick_start;
  context.memory_limit = options.memory_limit;
  context.tf32 = options.tf32;
  context.compiler_flags = options.flags;
  context.cache = scratch ? scratch->path() : options.cache;
  context.compiling = notice_on_terminal();
  const auto cold = Clock::now();
  {
    Context first(context);
    Routine routine = first.compile(workload.program);
    if (!routine.report().from_cache) out.cold_seconds = seconds_since(cold);
    routine.finish_compiling();
    if (const QuickCode quick = routine.report().quick_code; quick.changed) out.best_seconds = quick.seconds;
  }

  reset_peak_memory();
  const auto cached = Clock::now();
  Context ctx(context);
  Routine routine = ctx.compile(workload.program);
  out.cached_seconds = seconds_since(cached);
  routine.finish_compiling();
  const RoutineReport report = routine.report();
  out.arena_bytes = report.arena_bytes, out.kernels = report.kernels;
  out.live_bytes = routine.plan().memory.live;
  out.memory_bytes = out.arena_bytes;
  for (const ir::Buffer& buffer : routine.plan().program.buffers)
    if (std::holds_alternative<ir::StateLeaf>(buffer.kind) || std::holds_alternative<ir::DataLeaf>(buffer.kind))
      out.memory_bytes += buffer.shape.elements() * bytes(buffer.dtype);
  Samples(routine, workload).take(options.seconds, out);
  out.peak_bytes = peak_memory();
  return out;
}

double peak_flops(backend::Device& device) { return device.peaks().value_or(Peaks{}).flops; }

}  // namespace caravan::bench
