// caravan train: runs a recipe's step, shows how the loss falls and what came out.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "apps/interruption.h"
#include "apps/json_line.h"
#include "apps/keeper.h"
#include "apps/progress.h"
#include "apps/stages.h"
#include "apps/training.h"
#include "caravan/base/error.h"
#include "caravan/base/printable.h"
#include "caravan/data/digits.h"
#include "caravan/plot/plot.h"
#include "caravan/runtime/devices.h"
#include "caravan/train/checkpoint.h"

namespace caravan::app {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
  if (wishes.optimizer && wishes.optimizer != kept.optimizer) refuse("--optimizer", printable(*kept.optimizer));
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

// The device that a run goes on with: the one that computed the file, because another rounds differently. Only a
// --device on the command line changes it.
std::string device_to_go_on(const ModelFile& file, const Settings& settings) {
  const Setting& asked = settings.all().at("device");
  const std::string kind = asked.value.substr(0, asked.value.find(':'));
  if (file.device.empty() || asked.source == "command line" || kind == file.device) return asked.value;
  const std::string computed = fmt::format("{} was computed on {}", file.path, printable(file.device));
  const std::string otherwise = "another device rounds differently, so the run would end with other numbers";
  if (asked.value != "auto")
    throw ConfigError(fmt::format("{}, and {} asks for {}: {}; --device {} on the command line allows it.", computed,
                                  asked.source, asked.value, otherwise, asked.value));
  if (const AutomaticDevice& found = automatic_device(settings.cache()); found.name == file.device)
    return asked.value;
  else if (!found.why_interpreted.empty())
    throw ConfigError(
        fmt::format("{}, and here the run would be interpreted because {}: {}; --device interp allows it.", computed,
                    found.why_interpreted, otherwise));
  if (file.device == "interp") return file.device;
  throw ConfigError(fmt::format("{}: {}; --device auto allows it.", computed, otherwise));
}

ContextOptions context_options(const TrainOptions& options, const Settings& settings, const Start& start) {
  ContextOptions out;
  out.seed = start.request.seed;
  out.device = start.file ? device_to_go_on(*start.file, settings) : settings.device();
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

// A run with everything that it needs, before it has written anything.
struct Prepared {
  const TrainOptions& options;
  const Settings& settings;
  const RecipeRow& row;
  Start start;
  Recipe recipe;
  int64_t until;
  ContextOptions wanted;
  Context ctx;
  Routine step;
  double compile_seconds;

  bool compiled() const { return ctx.device() != "interp"; }
};

// The recipe, with the end that was asked for.
Recipe make_recipe(const RecipeRow& row, const Start& start) {
  Recipe out = row.make(start.request);
  if (!start.file) return out;
  const ModelFile& file = *start.file;
  if (out.data_sum != file.data_sum)
    throw ConfigError(fmt::format(
        "{} was begun with the data of {}, and that of {} is other data; give its folder with --data, or begin anew.",
        file.path, printable(file.data), out.data));
  out.schedule.report = file.report;
  if (out.schedule.steps < file.history.step)
    throw ConfigError(
        fmt::format("{} has done {} steps, which is more than {}.", file.path, file.history.step, out.schedule.steps));
  return out;
}

int64_t last_step(const TrainOptions& options, const Start& start, const Schedule& schedule) {
  const int64_t until = options.until.value_or(schedule.steps);
  if (until < start.history.step || until > schedule.steps)
    throw ConfigError(
        fmt::format("--until is {}; it must be a step from {} to {}.", until, start.history.step, schedule.steps));
  return until;
}

void load(const ModelFile& file, Context& ctx) {
  load_checkpoint(file.states, file.path, ctx);
  if (const std::string problem = nonfinite_state(ctx); !problem.empty())
    throw ConfigError(fmt::format("{} cannot be continued: {}.", file.path, problem));
}

Prepared prepare(const TrainOptions& options, const Settings& settings) {
  check_distinct({options.save, options.trace});
  Start start = start_of(options, settings);
  const RecipeRow& row = find_recipe(options.recipe);
  Recipe recipe = make_recipe(row, start);
  const int64_t until = last_step(options, start, recipe.schedule);
  ContextOptions wanted = context_options(options, settings, start);
  wanted.compiling = compile_notice(options.quiet || options.json);
  const auto begun = std::chrono::steady_clock::now();
  Context ctx(wanted);
  Routine step = ctx.compile(recipe.program);
  const double compile_seconds = seconds_since(begun);
  if (start.file) load(*start.file, ctx);
  return {options,           settings, row,  std::move(start), std::move(recipe), until,
          std::move(wanted), ctx,      step, compile_seconds};
}

Keeper keeper_of(const Prepared& p) {
  ModelRun run{p.recipe.schedule, {}, p.start.request.wishes.paper, p.recipe.data, p.recipe.data_sum};
  std::optional<int64_t> on_disk;
  if (const auto& file = p.start.file) {
    run.as_declared = is_as_declared(file->states, p.ctx);
    std::error_code error;
    if (std::filesystem::equivalent(file->path, p.options.save, error)) on_disk = file->history.step;
  }
  return {p.row.name, std::move(run), p.ctx, p.options.save, on_disk};
}

// What is written at the end, beside the checkpoint.
struct Outputs {
  std::optional<OutputFolder> plots;
  std::optional<OutputFile> trace;
};

// Everything that can be refused is refused here, before the first step; from here on files are written.
Outputs open_outputs(const Prepared& p, const Keeper& keeper) {
  const TrainOptions& options = p.options;
  if (!options.save.empty() && !OutputFile(options.save, "--save").regular())
    throw ConfigError(fmt::format("--save `{}` is not a file that can be replaced.", options.save));
  const Schedule& s = p.recipe.schedule;
  const int64_t left = s.steps - p.start.history.step;
  keeper.try_out(p.start.history, left / s.report + (p.recipe.accuracy ? left / s.steps_per_epoch() : 0));
  Outputs out;
  if (!options.plot.empty()) out.plots.emplace(options.plot, "--plot");
  if (!options.trace.empty()) out.trace.emplace(options.trace, "--trace");
  if (!options.dump.empty()) Stages(p.recipe, p.step.plan()).dump(OutputFolder(options.dump, "--dump"));
  return out;
}

// What a reader is told before the first step.
void introduce(const Prepared& p) {
  const TrainOptions& options = p.options;
  if (p.settings.log() >= 1) std::cerr << Stages(p.recipe, p.step.plan()).pass_log();
  if (p.recipe.stand_in) std::cerr << stand_in_message(p.row, p.recipe);
  if (options.debug_kernels) std::cout << fmt::format("The C of a step: {}\n", fmt::join(p.step.report().sources, " "));
  if (p.wanted.device == "auto" && !p.compiled())
    std::cerr << fmt::format("caravan: the program is interpreted, which is slow, because {}.\n",
                             automatic_device(p.wanted.cache).why_interpreted);
  if (p.wanted.device != p.settings.device() && p.start.file && p.ctx.device() == "interp")
    std::cerr << fmt::format(
        "caravan: {} was computed by the interpreter, so the run goes on with it; --device cpu "
        "changes that.\n",
        p.start.file->path);
  if (options.quiet) return;
  if (p.recipe.before && p.start.history.step == 0) {
    Context look = interpreted(p.ctx);
    p.recipe.before(std::cout, look);
  }
  if (p.start.file)
    std::cout << fmt::format("Going on from step {} of {}\n", p.start.history.step, p.recipe.schedule.steps);
}

// How a run ended, and what of it is kept.
struct Ended {
  Training::End how = Training::End::finished;
  History history;
  double seconds = 0;
  Kept kept;
  std::vector<std::string> problems;  // of the machine, a sentence each
};

// From the first step to the last save.
Ended run(const Prepared& p, Keeper& keeper) {
  Ended out;
  std::optional<NumberCheck> check;
  if (p.options.check_numbers) check.emplace(p.recipe, p.ctx, p.wanted);
  Training training(p.recipe, p.ctx, p.step, p.start.history);
  training.check = check ? &*check : nullptr;
  training.save_every = p.options.save_every;
  training.save = [&] { keeper.keep_meanwhile(training.history); };
  try {
    out.how = training.run(p.until, p.options.quiet);
  } catch (const std::exception& error) {
    out.how = Training::End::failed;
    out.problems.emplace_back(error.what());
  }
  out.history = training.history;
  out.seconds = training.seconds;
  const bool cut_off = out.how == Training::End::interrupted || out.how == Training::End::failed;
  if (out.how != Training::End::not_finite) out.kept = keeper.keep(out.history, cut_off);
  out.problems.insert(out.problems.end(), out.kept.problems.begin(), out.kept.problems.end());
  return out;
}

std::string to_go_on(const Prepared& p, const std::string& path) {
  const std::string data = p.settings.data().given;
  return fmt::format("caravan train {}{} --resume {} --save {}", p.row.name,
                     data.empty() ? "" : " --data " + quoted(data), quoted(path), quoted(path));
}

nlohmann::ordered_json results(const Prepared& p, const Ended& ended, const Findings& found) {
  const Schedule& schedule = p.recipe.schedule;
  const History& history = ended.history;
  const RoutineReport report = p.step.report();
  constexpr const char* kEnds[] = {"finished", "until", "interrupted", "not finite", "failed"};
  nlohmann::ordered_json out{{"recipe", p.options.recipe},
                             {"device", p.ctx.device()},
                             {"threads", p.compiled() ? p.settings.threads() : 1},
                             {"seed", schedule.seed},
                             {"steps", history.step},
                             {"end", kEnds[size_t(ended.how)]},
                             {"saved", nullptr},
                             {"seconds", ended.seconds},
                             {"steps_per_second", double(history.step - p.start.history.step) / ended.seconds},
                             {"loss", history.loss},
                             {"epoch_loss", history.epoch_loss()},
                             {"ewma_loss", history.ewma},
                             {"compile_seconds", p.compile_seconds}};
  if (!ended.kept.path.empty()) out["saved"] = ended.kept.path;
  if (p.compiled()) out["peak_bytes"] = report.arena_bytes;
  if (p.options.debug_kernels) out["source"] = report.sources;
  out["batch"] = schedule.batch;
  out["lr"] = schedule.lr;
  out["optimizer"] = schedule.optimizer;
  if (!p.row.data.empty()) out["data"] = p.recipe.data, out["stand_in"] = p.recipe.stand_in;
  if (!history.accuracies.empty()) out["epoch_accuracies"] = history.accuracies;
  for (const auto& [name, value] : found.numbers) out[name] = value;
  return out;
}

// What went wrong, and where the run is, on stderr; and the exit code that says so.
int conclude(const Prepared& p, const Ended& ended, const Keeper& keeper) {
  using End = Training::End;
  const Schedule& schedule = p.recipe.schedule;
  const Kept& kept = ended.kept;
  const bool cut_off = ended.how == End::interrupted || ended.how == End::failed;
  for (const std::string& problem : ended.problems) std::cerr << fmt::format("caravan: {}\n", printable_lines(problem));
  if (!kept.diverged.empty())
    std::cerr << fmt::format(
        "caravan: training diverged{}: {}; try a rate below --lr {}, or --check-numbers, which names the operation "
        "that made the first such number.{}\n",
        cut_off ? fmt::format(" before it was stopped after step {}", ended.history.step) : "", kept.diverged,
        schedule.lr, keeper.state_of_file());
  else if (kept.rescued)
    std::cerr << fmt::format("caravan: the run is kept in {} instead, after step {} of {}; to go on: {}\n", kept.path,
                             ended.history.step, schedule.steps, to_go_on(p, kept.path));
  else if (cut_off && !kept.path.empty())
    std::cerr << fmt::format("caravan: stopped after step {} of {}; to go on: {}\n", ended.history.step, schedule.steps,
                             to_go_on(p, kept.path));
  else if (kept.path.empty() && !kept.problems.empty())
    std::cerr << "caravan: no place took the run, so it is not kept.\n";
  std::cerr.flush();
  if (!ended.problems.empty()) return kMachineFailed;
  if (ended.how == End::not_finite || !kept.diverged.empty()) return kCheckFailed;
  return ended.how == End::interrupted ? Interruption::exit_code() : int(kDone);
}

// One way for every run to end: what it found, the pictures, the line of JSON, what failed. Whatever fails is told, and
// keeps nothing else from being done.
int report(const Prepared& p, const Outputs& outputs, Ended ended, const Keeper& keeper) {
  auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const std::exception& error) {
      ended.problems.emplace_back(error.what());
    }
  };
  const TrainOptions& options = p.options;
  Context ctx = p.ctx;
  Findings found;
  if (ended.how == Training::End::finished || ended.how == Training::End::until) {
    attempt([&] { found = p.recipe.examine(ctx); });
    if (!options.quiet) {
      attempt([&] { show(p.recipe, ended.history, found); });
      std::cout << fmt::format(
          "\n{} steps in {:.3g} s on {}, loss summed over the last epoch {:.4g}, moving average {:.4g}\n",
          ended.history.step - p.start.history.step, ended.seconds, ctx.device(), ended.history.epoch_loss(),
          ended.history.ewma);
      if (!ended.kept.path.empty()) std::cout << fmt::format("Saved as {}\n", ended.kept.path);
    }
    if (outputs.plots) attempt([&] { write_plots(*outputs.plots, p.recipe, ended.history, found); });
    if (outputs.trace)
      attempt([&] {
        outputs.trace->write(traced(p.recipe, ctx, std::max<int64_t>(ended.history.step, 1) - 1, p.step.plan()));
      });
  }
  if (options.json) std::cout << json_line(results(p, ended, found));
  std::cout.flush();
  return conclude(p, ended, keeper);
}

}  // namespace

int train_command(const TrainOptions& options, const Settings& settings) {
  const Prepared prepared = prepare(options, settings);
  Keeper keeper = keeper_of(prepared);
  const Outputs outputs = open_outputs(prepared, keeper);
  introduce(prepared);
  const Interruption interruption;  // until all is said: output that nobody reads must not hide where the run is
  Ended ended = run(prepared, keeper);
  const int code = report(prepared, outputs, std::move(ended), keeper);
  return code == kDone && Interruption::signal() == SIGPIPE ? Interruption::exit_code() : code;
}

}  // namespace caravan::app
