#include "apps/train/prepare.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "apps/progress.h"
#include "apps/stages.h"
#include "apps/train/ranks.h"
#include "caravan/backend/kernel_cache.h"
#include "caravan/base/error.h"
#include "caravan/base/printable.h"
#include "caravan/runtime/automatic_device.h"
#include "caravan/runtime/devices.h"
#include "caravan/train/checkpoint.h"

namespace caravan::app {

namespace {

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
  if (wishes.l2 && wishes.l2 != kept.l2) refuse("--l2", kept.l2.value_or(0));
  if (wishes.size && wishes.size != kept.size) refuse("--size", printable(kept.size.value_or("")));
  if (wishes.precision && wishes.precision != kept.precision.value_or("f32"))
    refuse("--precision", printable(kept.precision.value_or("f32")));
  if (wishes.paper && !kept.paper) throw ConfigError(fmt::format("{} was not begun with --paper.", file.path));
  const Setting& seed = settings.all().at("seed");
  if (seed.source == "command line" && settings.seed() != file.request.seed) refuse("--seed", file.request.seed);
}

Start start_of(const TrainOptions& options, const Settings& settings) {
  const data::Places places = settings.data();
  if (options.resume.empty()) {
    Start out{{options.wishes, settings.seed(), places, {}}, {}, {}};
    const std::vector<std::string>& sizes = find_recipe(options.recipe).sizes;
    if (!sizes.empty() && !options.wishes.size) out.request.wishes.size = sizes[0];
    return out;
  }
  ModelFile file = read_model(options.resume, places);
  check_resumed(options, settings, file);
  Request request = file.request;
  if (is_made(file.data) && places.given.empty()) request.places.usual.clear();  // though there may be others now
  if (options.wishes.epochs) request.wishes.steps.reset(), request.wishes.epochs = options.wishes.epochs;
  if (options.wishes.steps) request.wishes.steps = options.wishes.steps;
  const History history = file.history;
  return {request, history, std::move(file)};
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
  if (const AutomaticDevice& found = automatic_device(settings.cache(), Compiler::passed_self_test);
      found.name == file.device)
    return found.why_interpreted.empty() ? file.device : asked.value;  // not a GPU, although there may be one now
  else if (!found.why_interpreted.empty())
    throw ConfigError(
        fmt::format("{}, and here the run would be interpreted because {}: {}; --device interp allows it.", computed,
                    found.why_interpreted, otherwise));
  const DeviceKind* computed_on = find_device_kind(file.device);
  if (computed_on && !computed_on->compiles_c && computed_on->count() > 0) return file.device;
  throw ConfigError(fmt::format("{}: {}; --device auto allows it.", computed, otherwise));
}

bool split_states(const TrainOptions& options, const Start& start) {
  return options.mesh.split_states || (start.file && start.file->split_states);
}

// The mesh of a run. One that goes on adds up its sums in the parts that it was begun with, on whatever devices there
// are now; only --parts changes them. If it was begun with --split-states, it goes on so.
Mesh mesh_of_run(const TrainOptions& options, const Start& start, std::string& device) {
  const int64_t kept = start.file ? start.file->parts : 0;
  MeshWishes wishes = options.mesh;
  wishes.split_states = split_states(options, start);
  if (wishes.parts > 0 || kept == 0) return mesh_of(wishes, device);
  if (const int64_t devices = mesh_of(wishes, device).devices(); kept % devices != 0)
    throw ConfigError(
        fmt::format("{} was begun with --parts {}, which is not a multiple of the {} devices. Take a number of devices "
                    "that divides it; or --parts {}, but then sums are rounded otherwise from here on.",
                    start.file->path, kept, devices, devices));
  wishes.parts = kept;
  return mesh_of(wishes, device);
}

ContextOptions context_options(const TrainOptions& options, const Settings& settings, const Start& start) {
  ContextOptions out;
  out.seed = start.request.seed;
  out.device = start.file ? device_to_go_on(*start.file, settings) : settings.device();
  out.mesh = mesh_of_run(options, start, out.device);
  out.cache = settings.cache();
  out.threads = int(settings.threads());
  out.quick_start = settings.quick_start();
  out.memory_limit = options.memory_limit;
  out.passes_off = options.passes_off;
  if (options.debug_kernels) {
    if (out.device == "auto") out.device = "cpu";
    if (!device_kind(out.device).compiles_c)
      throw ConfigError(
          fmt::format("--debug-kernels is for compiled code; `{}` compiles none: use --device cpu.", out.device));
    out.compiler_flags = {"-g", "-O0"};
  }
  return out;
}

// The recipe, with the end that was asked for.
Recipe recipe_of(const RecipeRow& row, const Start& start) {
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
  load_checkpoint(file.states, file.path, ctx, {}, {});
  if (const std::string problem = nonfinite_state(ctx); !problem.empty())
    throw ConfigError(fmt::format("{} cannot be continued: {}.", file.path, problem));
}

// Throws BackendError if the processes of a run were not started with the same command, or go on from other files.
void check_ranks(const TrainOptions& options, const Start& start, const Schedule& s, int64_t until) {
  const Wishes& wishes = start.request.wishes;
  agree("another version of caravan", version());
  agree("another recipe", options.recipe);
  agree("another --batch", std::to_string(s.batch));
  agree("another number of steps", fmt::format("{} {}", s.steps, s.report));
  agree("another --until", std::to_string(until));
  agree("another --lr", fmt::format("{}", s.lr));
  agree("another --optimizer", s.optimizer);
  agree("another --seed", std::to_string(s.seed));
  agree("another --l2", fmt::format("{}", wishes.l2.value_or(0)));
  agree("another --size", wishes.size.value_or(""));
  agree("another --precision", wishes.precision.value_or(""));
  agree("another --paper", std::to_string(wishes.paper));
  agree("another --check-numbers", std::to_string(options.check_numbers));
  std::string states = std::to_string(start.history.step);
  if (start.file)
    for (const auto& [name, state] : start.file->states.list)
      states += name + backend::digest({reinterpret_cast<const char*>(state.elements.data()), state.elements.size()});
  agree("another file to resume", states);
}

// What a process finds out by itself: in the command, the settings and files.
struct Begun {
  Start start;
  Recipe recipe;
  int64_t until;
  ContextOptions wanted;
};
Begun begin(const TrainOptions& options, const Settings& settings) {
  if (!options.trace.empty() && processes() > 1)
    throw ConfigError("--trace runs a step in one process; use it with --devices instead of mpirun.");
  check_distinct({options.save, options.trace});
  Start start = start_of(options, settings);
  Recipe recipe = recipe_of(find_recipe(options.recipe), start);
  const int64_t until = last_step(options, start, recipe.schedule);
  ContextOptions wanted = context_options(options, settings, start);
  check_device(wanted);
  return {std::move(start), std::move(recipe), until, std::move(wanted)};
}

}  // namespace

Prepared prepare(const TrainOptions& options, const Settings& settings) {
  std::optional<Begun> begun_here;
  before_all_meet([&] { begun_here = begin(options, settings); });
  auto& [start, recipe, until, wanted] = *begun_here;
  check_ranks(options, start, recipe.schedule, until);
  wanted.compiling = compile_notice(options.quiet);
  const auto begun = std::chrono::steady_clock::now();
  Context ctx(wanted, {});  // without a line: what is refused is what the command was told
  Routine step = alike([&] { return ctx.compile(recipe.program, {}); });
  const double compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (start.file) alike([&] { load(*start.file, ctx); });
  ctx.collect_states();  // so that the first process can save them
  const RecipeRow& row = find_recipe(options.recipe);
  return {options,           settings, row,  std::move(start), std::move(recipe), until,
          std::move(wanted), ctx,      step, compile_seconds};
}

Keeper keeper_of(const Prepared& p) {
  ModelRun run{p.recipe.schedule, {}, p.start.request.wishes, p.recipe.data, p.recipe.data_sum, p.recipe.vocabulary};
  if (const auto& axes = p.wanted.mesh.axes; !axes.empty()) run.parts = axes[0].parts;
  run.split_states = split_states(p.options, p.start);
  std::optional<int64_t> on_disk;
  if (const auto& file = p.start.file) {
    run.as_declared = is_as_declared(file->states, p.ctx);
    std::error_code error;
    if (std::filesystem::equivalent(file->path, p.options.save, error)) on_disk = file->history.step;
  }
  return {p.row.name, std::move(run), p.ctx, p.options.save, on_disk};
}

Outputs open_outputs(const Prepared& p, const Keeper& keeper) {
  const TrainOptions& options = p.options;
  if (!options.save.empty() && !OutputFile(options.save, "--save").regular())
    throw ConfigError(fmt::format("--save `{}` is not a file that can be replaced.", options.save));
  const Schedule& s = p.recipe.schedule;
  const int64_t left = s.steps - p.start.history.step;
  keeper.try_out(p.start.history, left / s.report + (p.row.measure.name.empty() ? 0 : left / s.steps_per_epoch()));
  Outputs out;
  if (!options.plot.empty()) out.plots.emplace(options.plot, "--plot");
  if (!options.trace.empty()) out.trace.emplace(options.trace, "--trace");
  if (!options.dump.empty()) Stages(p.recipe, p.step, p.wanted).dump(OutputFolder(options.dump, "--dump"));
  return out;
}

namespace {

// "caravan train moons", on the same devices and with the same data.
std::string command_here(const Prepared& p) {
  const MeshWishes& mesh = p.options.mesh;
  const std::string data = p.settings.data().given;
  std::string out = processes() > 1 ? fmt::format("mpirun -n {} ", processes()) : "";
  out += "caravan train " + p.row.name;
  if (!mesh.devices.empty()) out += " --devices " + quoted(mesh.devices);
  if (mesh.engine != "auto") out += " --engine " + mesh.engine;
  if (!data.empty()) out += " --data " + quoted(data);
  return out;
}

}  // namespace

std::string command_to_go_on(const Prepared& p, const std::string& path) {
  return fmt::format("{} --resume {} --save {}", command_here(p), quoted(path), quoted(path));
}

std::string command_to_begin_anew(const Prepared& p) {
  const std::vector<MeshAxis>& axes = p.wanted.mesh.axes;
  std::string out = command_here(p);
  if (axes.empty()) return out;
  if (axes[0].parts > 0) out += fmt::format(" --parts {}", axes[0].parts);
  if (split_states(p.options, p.start)) out += " --split-states";
  // Devices and parts divide this batch, and perhaps not the recipe's own.
  if (const auto& batch = p.start.request.wishes.batch) out += fmt::format(" --batch {}", *batch);
  return out;
}

std::string quoted(const std::string& path) {
  if (path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=-") == path.npos)
    return path;
  std::string out = "'";
  for (const char c : path) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace caravan::app
