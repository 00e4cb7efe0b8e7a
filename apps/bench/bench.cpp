// caravan bench: how fast training steps and products of matrices are on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "apps/bench/measure.h"
#include "apps/commands.h"
#include "apps/figures.h"
#include "apps/json_line.h"
#include "apps/kernel_table.h"
#include "apps/output_folder.h"
#include "apps/profile_json.h"
#include "apps/stages.h"
#include "caravan/base/error.h"
#include "caravan/runtime/compile_notice.h"
#include "caravan/runtime/devices.h"
#include "caravan/target/target.h"

namespace caravan::app {

namespace {

using Json = nlohmann::ordered_json;
constexpr int64_t kRecordedSteps = 50;
constexpr size_t kProfiledKernels = 10;

// An entry with what was measured of it.
struct Result {
  bench::Entry entry;
  double flops;  // of a step
  double peak;   // a second
  bench::Measurement measured;
  double gflops() const { return flops / measured.range.median / 1e3; }
  double of_peak() const { return 1e9 * gflops() / peak; }
};

// One line for each. What was not measured is null.
Json to_json(const Result& r, const Target& target, const std::string& device) {
  const bench::Measurement& m = r.measured;
  Json out = {{"name", r.entry.name},
              {"threads", target.threads},
              {"device", device},
              {"median_us", m.range.median},
              {"min_us", m.range.min},
              {"max_us", m.range.max},
              {"gflops", r.gflops()},
              {"share_of_peak", r.of_peak()},
              {"compile_cold_ms", nullptr},
              {"compile_cached_ms", 1e3 * m.cached_seconds},
              {"arena_bytes", m.arena_bytes},
              {"live_bytes", m.live_bytes},
              {"memory_bytes", m.memory_bytes},
              {"peak_bytes", nullptr},
              {"lower_quartile_us", m.range.low},
              {"upper_quartile_us", m.range.high},
              {"samples", m.range.samples},
              {"call_median_us", m.call.median},
              {"call_lower_quartile_us", m.call.low},
              {"call_upper_quartile_us", m.call.high},
              {"best_code_ms", nullptr},
              {"kernels", m.kernels},
              {"flops", r.flops},
              {"peak_gflops", r.peak / 1e9},
              {"what", r.entry.doc},
              {"target", to_string(target)}};
  if (m.cold_seconds) out["compile_cold_ms"] = 1e3 * *m.cold_seconds;
  if (m.best_seconds) out["best_code_ms"] = 1e3 * *m.best_seconds;
  if (m.peak_bytes) out["peak_bytes"] = *m.peak_bytes;
  return out;
}

std::string short_bytes(int64_t bytes) {  // "2.9M"
  const double b = double(bytes);
  if (b < 1e6) return fmt::format("{:.0f}k", b / 1e3);
  return b < 1e9 ? fmt::format("{:.{}f}M", b / 1e6, b < 10e6 ? 1 : 0) : fmt::format("{:.1f}G", b / 1e9);
}

std::string title() {
  return fmt::format("{:<19} {:>7} {:>3} {:>7} {:>3} {:>7} {:>4} {:>5} {:>5} {:>5} {:>4}\n", "", "step us", "+-",
                     "call us", "+-", "GFLOP/s", "peak", "cold", "warm", "arena", "RAM");
}
std::string line(const Result& r) {
  auto times = [](const bench::Timing& t) {
    return fmt::format("{:>7} {:>2.0f}%", plan::microseconds_text(t.median), 100 * std::min(t.spread(), 0.99));
  };
  const bench::Measurement& m = r.measured;
  return fmt::format("{:<19} {} {} {:>7.1f} {:>3.0f}% {:>5} {:>5.3f} {:>5} {:>4}\n", r.entry.name, times(m.range),
                     times(m.call), r.gflops(), 100 * r.of_peak(),
                     m.cold_seconds ? fmt::format("{:.2f}", *m.cold_seconds) : "", m.cached_seconds,
                     short_bytes(m.arena_bytes), m.peak_bytes ? short_bytes(*m.peak_bytes) : "");
}
constexpr const char* kLegend =
    "step, call: in a range of steps and one by one; +-: half the distance of the\n"
    "quartiles; peak: share of the best rate; cold, warm: seconds to start, compiled\n"
    "anew and from the cache; arena, RAM: bytes of buffers, and of the process\n";

int print_list(const std::vector<bench::Entry>& entries, bool json) {
  Json all = Json::array();
  for (const bench::Entry& entry : entries)
    if (json)
      all.push_back({{"name", entry.name}, {"what", entry.doc}, {"for_gpu", entry.for_gpu}});
    else
      std::cout << fmt::format("{:<19}  {}\n", entry.name, entry.doc);
  if (json) std::cout << json_line(all);
  return kDone;
}

// The processor, if no device is named: peers run there too.
std::string device_of(const Settings& settings) { return settings.device() == "auto" ? "cpu" : settings.device(); }

// Those that are named, or all that the device is for.
std::vector<bench::Entry> chosen(const BenchOptions& options, const std::string& device) {
  const bool on_gpu = device_kind(device).is_gpu;
  const bool measured = !options.list && (options.stage.empty() || options.measure);
  std::vector<bench::Entry> out =
      options.names.empty() ? bench::entries() : bench::find_all(options.names, on_gpu || options.list);
  if (options.names.empty() && !options.list) std::erase_if(out, [&](const auto& e) { return e.for_gpu && !on_gpu; });
  for (const bench::Entry& entry : out)
    if (measured && entry.for_gpu && !on_gpu)
      throw ConfigError(
          fmt::format("the workload `{}` is for a GPU, with --device cuda: a step of it takes {:.1f} "
                      "TFLOP, which is far too much for a processor.",
                      entry.name, entry.make({}).flops / 1e12));
  return out;
}

// How the steps would run on the device, which need not be here. Flags can allow a processor fewer vectors.
int print_stage(const std::vector<bench::Entry>& entries, const BenchOptions& options, const std::string& device,
                const Settings& settings) {
  ContextOptions wanted;
  wanted.threads = int(settings.threads());
  wanted.cache = settings.cache();
  wanted.compiler_flags = options.flags;
  wanted.tf32 = options.tf32;
  const Target target = target_of(wanted, device);
  for (const bench::Entry& entry : entries) {
    const Context ctx({.device = "interp", .memory_limit = options.memory_limit});
    const std::shared_ptr<const plan::Plan> plan = ctx.plan(entry.make({}).program, target);
    std::cout << stage_of(*plan, options.stage, {wanted}) << std::flush;
    if (settings.log() >= 1) std::cerr << pass_log(*plan);
  }
  return kDone;
}

// A compiled step, and where its time goes.
struct Profiled {
  Routine step;
  plan::Profile profile;
};
Profiled profiled(const bench::Entry& entry, const BenchOptions& options, const Settings& settings) {
  const bench::Workload workload = entry.make({});
  Context ctx({.seed = 1,
               .device = device_of(settings),
               .threads = int(settings.threads()),
               .cache = settings.cache(),
               .compiler_flags = options.flags,
               .memory_limit = options.memory_limit,
               .tf32 = options.tf32,
               .compiling = notice_on_terminal()});
  Profiled out{ctx.compile(workload.program), {}};
  out.profile = out.step.profile({.first = workload.at(0)});
  out.profile.program = entry.name;
  return out;
}

// The slowest kernels of each.
int print_profiles(const std::vector<bench::Entry>& entries, const BenchOptions& options, const Settings& settings) {
  Json all = Json::array();
  for (const bench::Entry& entry : entries) {
    const plan::Profile profile = profiled(entry, options, settings).profile;
    if (options.json)
      all.push_back(profile_json(profile));
    else
      std::cout << plan::to_string(profile, kProfiledKernels) << std::flush;
  }
  if (options.json) std::cout << json_line(all);
  return kDone;
}

// All kernels of each, in order.
int print_measured_kernels(const std::vector<bench::Entry>& entries, const BenchOptions& options,
                           const Settings& settings) {
  for (const bench::Entry& entry : entries) {
    const Profiled run = profiled(entry, options, settings);
    std::cout << kernel_table(run.step.plan(), &run.profile) << std::flush;
  }
  return kDone;
}

int write_records(const std::vector<bench::Entry>& entries, const BenchOptions& options, const Settings& settings) {
  const OutputFolder folder(options.write, "--write");
  for (const bench::Entry& entry : entries) {
    ContextOptions context;
    context.seed = 1;
    context.device = device_of(settings);
    context.threads = int(settings.threads());
    context.cache = settings.cache();
    context.memory_limit = options.memory_limit;
    context.tf32 = options.tf32;
    folder.write(entry.name + ".safetensors",
                 data::safetensors_content(bench::record(entry.name, entry.make({}), context, kRecordedSteps)));
  }
  return kDone;
}

}  // namespace

std::vector<std::string> bench_names() {
  std::vector<std::string> out;
  for (const bench::Entry& entry : bench::entries()) out.push_back(entry.name);
  return out;
}

int bench_command(const BenchOptions& options, const Settings& settings) {
  const std::string device = device_of(settings);
  const std::vector<bench::Entry> entries = chosen(options, device);
  if (options.list) return print_list(entries, options.json);
  check_measured_stage(options.measure, options.stage);
  if (options.measure) return print_measured_kernels(entries, options, settings);
  if (!options.stage.empty()) return print_stage(entries, options, device, settings);
  if (options.profile) return print_profiles(entries, options, settings);
  if (!options.write.empty()) return write_records(entries, options, settings);
  const int threads = int(settings.threads());
  const std::unique_ptr<backend::Device> measured =
      make_device({.device = device, .threads = threads, .cache = settings.cache(), .compiler_flags = options.flags});
  const Target target = measured->target().value_or(host(threads));
  const double peak = bench::peak_flops(*measured);
  const std::string parts = device_kind(device).is_gpu
                                ? counted(int(target.gpu.multiprocessors), "multiprocessor", "multiprocessors")
                                : counted(target.threads, "thread", "threads");
  if (!options.json)
    std::cout << fmt::format("{}, {}, at best {:.1f} GFLOP/s of f32\n\n", target.processor, parts, peak / 1e9)
              << title() << std::flush;
  for (const bench::Entry& entry : entries) {
    const bench::Workload workload = entry.make({});
    const Result result{entry, workload.flops, peak,
                        bench::measure(workload, {.seconds = options.seconds,
                                                  .threads = threads,
                                                  .device = device,
                                                  .tf32 = options.tf32,
                                                  .quick_start = settings.quick_start(),
                                                  .memory_limit = options.memory_limit,
                                                  .cache = options.warm ? settings.cache() : "",
                                                  .flags = options.flags})};
    std::cout << (options.json ? json_line(to_json(result, target, device)) : line(result)) << std::flush;
  }
  if (!options.json) std::cout << '\n' << kLegend;
  return kDone;
}

}  // namespace caravan::app
