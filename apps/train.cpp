// caravan train: runs a recipe's step, shows how the loss falls and what came out.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/commands.h"
#include "apps/interruption.h"
#include "apps/progress.h"
#include "apps/stages.h"
#include "apps/training.h"
#include "caravan/base/error.h"
#include "caravan/data/digits.h"
#include "caravan/plot/plot.h"
#include "caravan/runtime/devices.h"
#include "caravan/train/checkpoint.h"

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

// The recipe's rate at the beginning of each report.
std::vector<double> learning_rates(const Recipe& recipe, int64_t steps) {
  Context ctx({.device = "interp"});
  Routine rate = ctx.compile(observe(recipe.lr));
  std::vector<double> out;
  for (int64_t s = 0; s < steps; s += recipe.schedule.report) {
    rate.run(recipe.at(s));
    out.push_back(rate.read(recipe.lr).item());
  }
  return out;
}

struct Curves {
  plot::Curve rate, loss, log_loss;
};
Curves curves(const Recipe& recipe, const History& history) {
  const bool by_epoch = recipe.schedule.by_epoch();
  const std::string unit = by_epoch ? "epoch" : "step";
  const std::string summed =
      by_epoch ? "summed over an epoch" : fmt::format("moving average with weight {}", recipe.schedule.ewma);
  const int64_t each = by_epoch ? 1 : recipe.schedule.report;
  return {{"Learning rate", unit, learning_rates(recipe, history.step), plot::Axis::linear, each},
          {"Loss, " + summed, unit, history.reports, plot::Axis::linear, each},
          {"Log loss, " + summed, unit, history.reports, plot::Axis::logarithmic, each}};
}

void show(const Recipe& recipe, const History& history, const Findings& found) {
  const Curves c = curves(recipe, history);
  for (const plot::Curve* curve : {&c.rate, &c.loss, &c.log_loss}) std::cout << '\n' << plot::text(*curve);
  std::cout << '\n' << found.text;
}

void write_plots(const OutputFolder& folder, const Recipe& recipe, const History& history, const Findings& found) {
  const Curves c = curves(recipe, history);
  folder.write("learning_rate.svg", plot::svg(c.rate));
  folder.write("loss.svg", plot::svg(c.loss));
  folder.write("log_loss.svg", plot::svg(c.log_loss));
  if (found.pictures)
    for (const Picture& picture : found.pictures()) folder.write(picture.file, picture.content);
}

// A run that is continued keeps what it was begun with; only its end may move.
void check_resumed(const TrainOptions& options, const Settings& settings, const ModelFile& file) {
  const Wishes &wishes = options.wishes, &kept = file.request.wishes;
  auto refuse = [&](const char* option, const auto& value) {
    throw ConfigError(fmt::format("{} was begun with {} {}; a run that is continued keeps it, so leave it out.",
                                  file.path, option, value));
  };
  if (file.recipe != options.recipe)
    throw ConfigError(fmt::format("{0} is of the recipe {1}: `caravan train {1} --resume {0}` continues it.", file.path,
                                  file.recipe));
  if (wishes.batch && wishes.batch != kept.batch) refuse("--batch", *kept.batch);
  if (wishes.lr && wishes.lr != kept.lr) refuse("--lr", *kept.lr);
  if (wishes.optimizer && wishes.optimizer != kept.optimizer) refuse("--optimizer", *kept.optimizer);
  if (wishes.paper && !kept.paper) throw ConfigError(fmt::format("{} was not begun with --paper.", file.path));
  const Setting& seed = settings.all().at("seed");
  if (seed.source == "command line" && settings.seed() != file.request.seed) refuse("--seed", file.request.seed);
}

// What is asked for, and where it begins.
struct Start {
  Request request;
  History history;
  std::optional<ModelFile> file;
};
Start start_of(const TrainOptions& options, const Settings& settings) {
  const data::Places places = settings.data();
  if (options.resume.empty()) return {{options.wishes, settings.seed(), places}, {}, {}};
  ModelFile file = read_model(options.resume, places);
  check_resumed(options, settings, file);
  Request request = file.request;
  if (file.data == data::kDrawn && places.given.empty())
    request.places.usual.clear();  // though there may be others now
  if (options.wishes.epochs) request.wishes.steps.reset(), request.wishes.epochs = options.wishes.epochs;
  if (options.wishes.steps) request.wishes.steps = options.wishes.steps;
  const History history = file.history;
  return {request, history, std::move(file)};
}

// As one would type it.
std::string quoted(const std::string& path) {
  if (path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,=-") == path.npos)
    return path;
  std::string out = "'";
  for (const char c : path) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Keeps a run in a file. What is not finite is not kept, so that a run which diverges spares the file it was to
// replace.
class Keeper {
 public:
  Keeper(const RecipeRow& row, const Recipe& recipe, bool paper, const Context& ctx)
      : row_(row), recipe_(recipe), paper_(paper), ctx_(ctx) {}

  bool keep(const std::string& path, const History& history) const {  // false: not finite
    if (!std::isfinite(history.loss)) return false;
    write_model(path, row_.name, {recipe_.schedule, history, paper_, recipe_.data, recipe_.data_sum}, ctx_);
    return true;
  }
  // A disk may be full for a moment: training goes on, and the last save tells.
  void keep_if_possible(const std::string& path, const History& history) const {
    try {
      keep(path, history);
    } catch (const Error& error) {
      std::cerr << fmt::format("caravan: the run goes on unsaved for now: {}\n", error.what());
    }
  }

 private:
  const RecipeRow& row_;
  const Recipe& recipe_;
  bool paper_;
  Context ctx_;
};

// Where a run is kept that nobody asked to save, when it is interrupted.
std::string rescue_path(const Settings& settings, const std::string& recipe) {
  return fmt::format("{}/interrupted/{}-{}.safetensors", settings.cache(), recipe, getpid());
}

std::string stopped_message(const RecipeRow& row, const Recipe& recipe, const History& history, const std::string& path,
                            const Settings& settings) {
  const std::string data = settings.data().given;
  return fmt::format("caravan: stopped after step {} of {}; to go on: caravan train {}{} --resume {} --save {}\n",
                     history.step, recipe.schedule.steps, row.name, data.empty() ? "" : " --data " + quoted(data),
                     quoted(path), quoted(path));
}

ContextOptions context_options(const TrainOptions& options, const Settings& settings, uint64_t seed) {
  ContextOptions out;
  out.seed = seed;
  out.device = settings.device();
  out.cache = settings.cache();
  out.threads = int(settings.threads());
  out.passes_off = options.passes_off;
  if (options.debug_kernels) {
    if (out.device == "auto") out.device = "cpu";
    if (!out.device.starts_with("cpu"))
      throw ConfigError(
          fmt::format("--debug-kernels is for compiled code; `{}` compiles none: use --device cpu.", out.device));
    out.compiler_flags = {"-g", "-O0"};
  }
  return out;
}

}  // namespace

int train_command(const TrainOptions& options, const Settings& settings) {
  check_distinct({options.save, options.trace});
  const Start start = start_of(options, settings);
  const RecipeRow& row = find_recipe(options.recipe);
  Recipe recipe = row.make(start.request);
  Schedule& schedule = recipe.schedule;
  if (start.file) {
    if (recipe.data_sum != start.file->data_sum)
      throw ConfigError(fmt::format(
          "{} was begun with the data of {}, and that of {} is other data; give its folder with --data, or begin anew.",
          start.file->path, start.file->data, recipe.data));
    schedule.report = start.file->report;
    if (schedule.steps < start.history.step)
      throw ConfigError(fmt::format("{} has done {} steps, which is more than {}.", start.file->path,
                                    start.history.step, schedule.steps));
  }
  const int64_t until = options.until.value_or(schedule.steps);
  if (until < start.history.step || until > schedule.steps)
    throw ConfigError(
        fmt::format("--until is {}; it must be a step from {} to {}.", until, start.history.step, schedule.steps));
  const Stages stages(recipe, options.passes_off);
  ContextOptions wanted = context_options(options, settings, start.request.seed);
  std::optional<Progress> compiling;
  wanted.compiling = [&](int done, int total) {
    if (done == 0) compiling.emplace(total, 4, options.quiet);
    compiling->at(done, fmt::format("compiling {}/{}", done, total));
    if (done == total) compiling.reset();
  };
  auto [ctx, step, compile_seconds] = prepare(recipe, wanted);
  if (start.file) load_checkpoint(start.file->states, start.file->path, ctx);

  // From here on files are written.
  std::optional<OutputFolder> plots;
  if (!options.plot.empty()) plots.emplace(options.plot, "--plot");
  std::optional<OutputFile> trace;
  if (!options.trace.empty()) trace.emplace(options.trace, "--trace");
  if (!options.save.empty() && !OutputFile(options.save, "--save").regular())
    throw ConfigError(fmt::format("--save `{}` is not a file that can be replaced.", options.save));
  if (!options.dump.empty()) stages.dump(OutputFolder(options.dump, "--dump"));
  if (settings.log() >= 1) std::cerr << stages.pass_log();
  if (recipe.stand_in) std::cerr << stand_in_message(row, recipe);
  const bool compiled = ctx.device() != "interp";
  const RoutineReport report = step.report();
  if (options.debug_kernels) std::cout << fmt::format("The C of a step: {}\n", fmt::join(report.sources, " "));
  if (wanted.device == "auto" && !automatic_device(wanted.cache).why_interpreted.empty())
    std::cerr << fmt::format("caravan: the program is interpreted, which is slow, because {}.\n",
                             automatic_device(wanted.cache).why_interpreted);

  if (!options.quiet && recipe.before && start.history.step == 0) {
    Context look = interpreted(ctx);
    recipe.before(std::cout, look);
  }
  if (!options.quiet && start.file)
    std::cout << fmt::format("Going on from step {} of {}\n", start.history.step, schedule.steps);
  std::optional<NumberCheck> check;
  if (options.check_numbers) check.emplace(recipe, ctx, wanted);
  Training training(recipe, ctx, step, start.history);
  training.check = check ? &*check : nullptr;
  const Keeper keeper(row, recipe, start.request.wishes.paper, ctx);
  if (!options.save.empty()) training.save = [&] { keeper.keep_if_possible(options.save, training.history); };
  const Interruption interruption;
  const Training::End end = training.run(until, options.quiet);
  const History& history = training.history;
  if (end == Training::End::not_finite) return kCheckFailed;
  if (end == Training::End::interrupted) {
    const std::string path = options.save.empty() ? rescue_path(settings, row.name) : options.save;
    OutputFile(path, "--save");
    keeper.keep(path, history);
    std::cerr << stopped_message(row, recipe, history, path, settings);
    return Interruption::exit_code();
  }
  std::optional<BackendError> unsaved;  // told after what the run has found, which would be lost with it
  bool saved = false;
  try {
    saved = !options.save.empty() && keeper.keep(options.save, history);
  } catch (const BackendError& error) {
    unsaved = error;
  }

  const Findings found = recipe.examine(ctx);
  if (!options.quiet) {
    show(recipe, history, found);
    std::cout << fmt::format(
        "\n{} steps in {:.3g} s on {}, loss summed over the last epoch {:.4g}, moving average {:.4g}\n",
        history.step - start.history.step, training.seconds, ctx.device(), history.epoch_loss(), history.ewma);
    if (saved) std::cout << fmt::format("Saved as {}\n", options.save);
  }
  if (plots) write_plots(*plots, recipe, history, found);
  if (trace) trace->write(traced(recipe, ctx, std::max<int64_t>(history.step, 1) - 1, options.passes_off));
  if (options.json) {
    nlohmann::ordered_json out{{"recipe", options.recipe},
                               {"device", ctx.device()},
                               {"threads", compiled ? settings.threads() : 1},
                               {"seed", schedule.seed},
                               {"steps", history.step},
                               {"seconds", training.seconds},
                               {"steps_per_second", double(history.step - start.history.step) / training.seconds},
                               {"loss", history.loss},
                               {"epoch_loss", history.epoch_loss()},
                               {"ewma_loss", history.ewma},
                               {"compile_seconds", compile_seconds}};
    if (compiled) out["peak_bytes"] = report.arena_bytes;
    if (options.debug_kernels) out["source"] = report.sources;
    out["batch"] = schedule.batch;
    out["lr"] = schedule.lr;
    out["optimizer"] = schedule.optimizer;
    if (!row.data.empty()) out["data"] = recipe.data, out["stand_in"] = recipe.stand_in;
    if (!history.accuracies.empty()) out["epoch_accuracies"] = history.accuracies;
    for (const auto& [name, value] : found.numbers) out[name] = value;
    std::cout << out.dump() << '\n';
  }
  if (unsaved) throw *unsaved;
  if (std::isfinite(history.loss)) return kDone;
  std::cerr << fmt::format(
      "caravan: training diverged: the last loss is {}; try a rate below --lr {}, or --check-numbers, which names "
      "the operation that made the first such number.{}\n",
      history.loss, schedule.lr, options.save.empty() ? "" : " It was not saved.");
  return kCheckFailed;
}

}  // namespace caravan::app
