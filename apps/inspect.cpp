// caravan inspect: the stages of a recipe's training step.
#include <fmt/format.h>

#include <iostream>

#include "apps/commands.h"
#include "caravan/base/error.h"
#include "caravan/runtime/see.h"

namespace caravan::app {

namespace {

const char* kStages = "graph, shapes, constraints, assignments";

void refuse_stage(const std::string& stage) {
  for (const char* later : {"loops", "optimized", "c", "cuda", "memory", "kernels"})
    if (stage == later)
      throw ConfigError(fmt::format(
          "this build has no stage `{}`: it interprets programs and compiles none; it has: {}.", stage, kStages));
  throw ConfigError(fmt::format("there is no stage `{}`; there are: {}.", stage, kStages));
}

}  // namespace

int inspect_command(const InspectOptions& options, const Settings& settings) {
  if (options.dot && options.stage != "graph") throw ConfigError("--dot draws the graph; use it with --stage graph.");
  const Recipe recipe = make_recipe(options.recipe, {}, settings.seed());
  if (options.stage == "graph" && options.dot)
    std::cout << graphviz(recipe.loss);
  else if (options.stage == "graph")
    print_graph(std::cout, recipe.loss);
  else if (options.stage == "shapes")
    print_shapes(std::cout, recipe.program);
  else if (options.stage == "constraints")
    print_constraints(std::cout, recipe.program);
  else if (options.stage == "assignments")
    print_assignments(std::cout, recipe.program);
  else
    refuse_stage(options.stage);
  return kDone;
}

}  // namespace caravan::app
