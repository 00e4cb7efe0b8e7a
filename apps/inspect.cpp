// caravan inspect: the stages of a recipe's training step.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/kernel_table.h"
#include "apps/stages.h"
#include "apps/terminal.h"
#include "apps/train/ranks.h"
#include "caravan/base/error.h"
#include "caravan/plan/cost.h"
#include "caravan/runtime/automatic_device.h"
#include "caravan/runtime/compile_notice.h"
#include "caravan/runtime/devices.h"

namespace caravan::app {

namespace {

// What follows ` # `, the line that something is from, stands back.
std::string with_faint_remarks(const std::string& text, const Screen& screen) {
  if (!screen.colour) return text;
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = std::min(line.find("   # "), line.size());
    out += line.substr(0, at) + screen.styled(Style::faint, line.substr(at)) + '\n';
  }
  return out;
}

}  // namespace

int inspect_command(const InspectOptions& options, const Settings& settings) {
  const bool first = this_rank() == 0;  // which alone prints and writes
  if (!first) be_silent();
  // Files and one stage on the screen are two wishes; without either, the graph.
  const bool only_files = options.stage.empty() && !(options.dump.empty() && options.trace.empty());
  const std::string stage = options.stage.empty() && !only_files ? "graph" : options.stage;
  std::optional<Recipe> made;
  ContextOptions wanted;
  before_all_meet([&] {
    if (options.dot && stage != "graph") throw ConfigError("--dot draws the graph; use it with --stage graph.");
    check_measured_stage(options.measure, stage);
    const RecipeRow& row = find_recipe(options.recipe);
    check_choices(row, options.wishes);
    made = row.make({options.wishes, settings.seed(), settings.data()});
    wanted.device = settings.device();
    wanted.mesh = mesh_of(options.mesh, wanted.device);
    // Looking at stages and values needs no compiler and no GPU: the interpreter shows the plan for a device.
    if (!options.measure) wanted.device = "interp";
    check_device(wanted);
  });
  const Recipe& recipe = *made;
  wanted.seed = settings.seed();
  wanted.threads = int(settings.threads());
  wanted.cache = settings.cache();
  wanted.memory_limit = options.memory_limit;
  wanted.passes_off = options.passes_off;
  wanted.quick_start = settings.quick_start();
  if (options.measure && first) wanted.compiling = notice_on_terminal();
  const bool automatic = settings.device() == "auto" && stage != "c" && !options.measure;
  const DeviceKind* named = find_device_kind(settings.device());
  if (named && named->is_gpu && !options.measure)
    wanted.plans_for = settings.device();
  else if (settings.device() == "auto" && stage == "cuda")
    wanted.plans_for = gpu_kind().name;
  auto ctx = std::make_unique<Context>(wanted);
  Routine step = alike([&] { return ctx->compile(recipe.program); });
  if (automatic && !device_kind(wanted.plans_for).is_gpu && takes_gpu(plan::operations(step.plan().program))) {
    wanted.plans_for = gpu_kind().name;
    ctx = std::make_unique<Context>(wanted);
    step = ctx->compile(recipe.program);
  }
  const Stages stages(recipe, step, wanted);
  if (first && !options.dump.empty()) stages.dump(OutputFolder(options.dump, "--dump"));
  if (!options.trace.empty()) {
    std::optional<OutputFile> file;
    if (first) file.emplace(options.trace, "--trace");
    const std::string values = traced(recipe, *ctx, 0, step);  // by all: a step exchanges values
    if (file) file->write(values);
  }
  std::optional<plan::Profile> measured;
  if (options.measure)  // last: it changes the states
    measured = step.profile({.first = recipe.at(0)});
  const std::string text = stage.empty() ? ""
                           : measured    ? kernel_table(step.plan(), &*measured)
                           : options.dot ? stages.graphviz()
                                         : stages.text(stage);
  if (options.json)
    std::cout << (options.stage.empty() && !options.dot
                      ? traced(recipe, *ctx, 0, step)
                      : json_line({{"recipe", options.recipe}, {"stage", stage}, {"text", text}}));
  else
    std::cout << with_faint_remarks(text, output_screen());
  if (first && settings.log() >= 1) std::cerr << pass_log(step.plan());
  wait_for_ranks();
  return kDone;
}

}  // namespace caravan::app
