// caravan train: runs a recipe's step, shows how the loss falls and what came out.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "apps/c_compiler.h"
#include "apps/commands.h"
#include "apps/progress.h"
#include "apps/stages.h"
#include "caravan/base/error.h"

namespace caravan::app {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Prepared {
  Context ctx;
  Routine step;
  double seconds = 0;  // it took
};
Prepared prepare(const Recipe& recipe, const ContextOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Context ctx(options);
  Routine step = ctx.compile(recipe.program);
  return {ctx, step, seconds_since(start)};
}

// `auto` is the processor where a C compiler works, otherwise the interpreter.
Prepared prepare_automatic(const Recipe& recipe, ContextOptions options) {
  options.device = "cpu";
  try {
    return prepare(recipe, options);
  } catch (const BackendError&) {
    const CCompiler compiler = find_c_compiler();
    if (compiler.works()) throw;  // so it is not for want of a compiler
    std::cerr << fmt::format("caravan: the program is interpreted, which is slow, because {}.\n", compiler.problem);
  }
  options.device = "interp";
  return prepare(recipe, options);
}

struct Run {
  std::vector<double> reports;     // losses of each stretch of `schedule.report` steps, the last one perhaps unfinished
  std::vector<double> last_epoch;  // losses of the last steps, at most an epoch's, in no particular order
  double loss = 0;                 // of the last step
  double seconds = 0;

  double epoch_loss() const { return std::accumulate(last_epoch.begin(), last_epoch.end(), 0.0); }
};

Run run_steps(const Recipe& recipe, Routine step, bool quiet) {
  const Schedule& schedule = recipe.schedule;
  const int64_t per_epoch = schedule.steps_per_epoch(), steps = schedule.steps, report = schedule.report;
  const int64_t reports = (steps + report - 1) / report;
  const bool by_epoch = schedule.by_epoch();
  Progress progress(reports, 10, quiet);
  Run out;
  out.last_epoch.resize(size_t(std::min(per_epoch, steps)));
  out.reports.reserve(size_t(reports));
  IndexValues at = recipe.at(0);  // kept, because a step may take less time than an allocation
  int64_t& batch = at[0].second;
  int64_t& count = at[1].second;
  const auto start = std::chrono::steady_clock::now();
  while (count < steps) {
    const int64_t end = std::min(count + report, steps), first = count;
    double total = 0;
    for (; count < end; ++count) {
      batch = count % per_epoch;
      step.run(at);
      out.loss = step.read(recipe.loss).item();
      out.last_epoch[size_t(batch)] = out.loss;
      total += out.loss;
    }
    out.reports.push_back(by_epoch ? total : total / double(end - first));
    const int64_t done = int64_t(out.reports.size());
    progress.at(done, by_epoch ? fmt::format("epoch {} of {}: loss {:.4g}", done, reports, total)
                               : fmt::format("step {} of {}: loss {:.4g}", count, steps, out.reports.back()));
  }
  out.seconds = seconds_since(start);
  return out;
}

// The recipe's rate at the beginning of each report.
std::vector<double> learning_rates(const Recipe& recipe) {
  Context ctx({.device = "interp"});
  Routine rate = ctx.compile(observe(recipe.lr));
  std::vector<double> out;
  for (int64_t s = 0; s < recipe.schedule.steps; s += recipe.schedule.report) {
    rate.run(recipe.at(s));
    out.push_back(rate.read(recipe.lr).item());
  }
  return out;
}

struct Curves {
  plot::Curve rate, loss, log_loss;
};
Curves curves(const Recipe& recipe, const Run& run) {
  const bool by_epoch = recipe.schedule.by_epoch();
  const std::string unit = by_epoch ? "epoch" : "step";
  const std::string summed =
      by_epoch ? "summed over an epoch" : fmt::format("mean of {} steps", recipe.schedule.report);
  const int64_t each = by_epoch ? 1 : recipe.schedule.report;
  return {{"Learning rate", unit, learning_rates(recipe), plot::Axis::linear, each},
          {"Loss, " + summed, unit, run.reports, plot::Axis::linear, each},
          {"Log loss, " + summed, unit, run.reports, plot::Axis::logarithmic, each}};
}

// The same state in the interpreter, where looking at it needs no compilation.
Context interpreted(const Context& ctx) {
  Context out({.seed = ctx.seed(), .device = "interp"});
  for (const std::string& name : ctx.names()) out.write(name, ctx.read(name));
  return out;
}

void show(const Recipe& recipe, const Run& run, Context& look) {
  const Curves c = curves(recipe, run);
  for (const plot::Curve* curve : {&c.rate, &c.loss, &c.log_loss}) std::cout << '\n' << plot::text(*curve);
  std::cout << '\n';
  if (recipe.boundary) std::cout << plot::text(recipe.boundary(look, 72, 22));
  if (recipe.after) recipe.after(std::cout, look);
}

void write_plots(const OutputFolder& folder, const Recipe& recipe, const Run& run, Context& look) {
  const Curves c = curves(recipe, run);
  folder.write("learning_rate.svg", plot::svg(c.rate));
  folder.write("loss.svg", plot::svg(c.loss));
  folder.write("log_loss.svg", plot::svg(c.log_loss));
  if (recipe.boundary) folder.write("boundary.svg", plot::svg(recipe.boundary(look, 144, 80)));
}

}  // namespace

int train_command(const TrainOptions& options, const Settings& settings) {
  const Recipe recipe = make_recipe(options.recipe, options.wishes, settings.seed());
  const Schedule& schedule = recipe.schedule;
  const Stages stages(recipe, options.passes_off);
  ContextOptions wanted;
  wanted.seed = settings.seed();
  wanted.device = settings.device();
  wanted.cache = settings.cache();
  wanted.threads = int(settings.threads());
  wanted.passes_off = options.passes_off;
  std::optional<Progress> compiling;
  wanted.compiling = [&](int done, int total) {
    if (done == 0) compiling.emplace(total, 4, options.quiet);
    compiling->at(done, fmt::format("compiling {}/{}", done, total));
    if (done == total) compiling.reset();
  };
  if (options.debug_kernels) {
    if (wanted.device == "auto") wanted.device = "cpu";
    if (!wanted.device.starts_with("cpu"))
      throw ConfigError(
          fmt::format("--debug-kernels is for compiled code; `{}` compiles none: use --device cpu.", wanted.device));
    wanted.compiler_flags = {"-g", "-O0"};
  }
  if (wanted.device != "auto") Context{wanted};  // refuses a device that does not exist, before anything is written
  std::optional<OutputFolder> plots;
  if (!options.plot.empty()) plots.emplace(options.plot, "--plot");
  if (!options.dump.empty()) stages.dump(OutputFolder(options.dump, "--dump"));
  if (settings.log() >= 1) std::cerr << stages.pass_log();

  auto [ctx, step, compile_seconds] =
      wanted.device == "auto" ? prepare_automatic(recipe, wanted) : prepare(recipe, wanted);
  const bool compiled = ctx.device() != "interp";
  const RoutineReport report = step.report();
  if (options.debug_kernels) std::cout << fmt::format("The C of a step: {}\n", fmt::join(report.sources, " "));

  if (!options.quiet && recipe.before) {
    Context look = interpreted(ctx);
    recipe.before(std::cout, look);
  }
  const Run run = run_steps(recipe, step, options.quiet);
  Context look = interpreted(ctx);
  if (!options.quiet) {
    show(recipe, run, look);
    std::cout << fmt::format("\n{} steps in {:.3g} s on {}, loss of the last epoch {:.4g}\n", schedule.steps,
                             run.seconds, ctx.device(), run.epoch_loss());
  }
  if (plots) write_plots(*plots, recipe, run, look);
  if (options.json) {
    nlohmann::ordered_json out{{"recipe", options.recipe},
                               {"device", ctx.device()},
                               {"threads", compiled ? settings.threads() : 1},
                               {"seed", settings.seed()},
                               {"steps", schedule.steps},
                               {"seconds", run.seconds},
                               {"steps_per_second", double(schedule.steps) / run.seconds},
                               {"loss", run.loss},
                               {"epoch_loss", run.epoch_loss()},
                               {"compile_seconds", compile_seconds}};
    if (compiled) out["peak_bytes"] = report.arena_bytes;
    if (options.debug_kernels) out["source"] = report.sources;
    out["batch"] = schedule.batch;
    out["lr"] = schedule.lr;
    for (const auto& [name, value] : recipe.results(look)) out[name] = value;
    std::cout << out.dump() << '\n';
  }
  if (std::isfinite(run.loss)) return kDone;
  std::cerr << fmt::format("caravan: training diverged: the last loss is {}; try a rate below --lr {}.\n", run.loss,
                           schedule.lr);
  return kCheckFailed;
}

}  // namespace caravan::app
