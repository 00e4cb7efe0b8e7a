// caravan inspect: the stages of a recipe's training step.
#include <fmt/format.h>

#include <iostream>

#include "apps/commands.h"
#include "apps/stages.h"
#include "caravan/base/error.h"

namespace caravan::app {

int inspect_command(const InspectOptions& options, const Settings& settings) {
  // A folder of all stages and one stage on the screen are two wishes; without either, the graph.
  const std::string stage = options.stage.empty() && options.dump.empty() ? "graph" : options.stage;
  if (options.dot && stage != "graph") throw ConfigError("--dot draws the graph; use it with --stage graph.");
  const Stages stages(make_recipe(options.recipe, {}, settings.seed()), options.passes_off);
  const std::string text = stage.empty() ? "" : options.dot ? stages.graphviz() : stages.text(stage);
  if (!options.dump.empty()) stages.dump(OutputFolder(options.dump, "--dump"));
  std::cout << text;
  if (settings.log() >= 1) std::cerr << stages.pass_log();
  return kDone;
}

}  // namespace caravan::app
