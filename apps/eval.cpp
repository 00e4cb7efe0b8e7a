// caravan eval: what a saved model can do.
#include <fmt/format.h>

#include <iostream>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/model_file.h"
#include "apps/output_folder.h"
#include "apps/progress.h"
#include "apps/terminal.h"
#include "caravan/base/list_text.h"
#include "caravan/train/checkpoint.h"

namespace caravan::app {

int eval_command(const EvalOptions& options, const Settings& settings) {
  const ModelFile file = read_model(options.file, settings.data());
  const RecipeRow& row = find_recipe(file.recipe);
  const Recipe recipe = row.make(file.request);
  Context ctx({.seed = file.request.seed,
               .device = settings.device(),
               .threads = int(settings.threads()),
               .quick_start = settings.quick_start(),
               .cache = settings.cache(),
               .compiling = compile_notice(options.quiet)},
              {});
  // So that the Context has the model's states.
  ctx.compile(observe(recipe.evaluated.defined() ? recipe.evaluated : recipe.loss), {});
  load_checkpoint(file.states, file.path, ctx, {.allow_unexpected = true}, {});  // the moments of its optimiser
  const std::string nonfinite = nonfinite_state(ctx);
  std::optional<OutputFolder> plots;
  if (!options.plot.empty()) plots.emplace(options.plot, "--plot");
  if (recipe.stand_in) std::cerr << stand_in_message(row, recipe);

  const Findings found = recipe.evaluate(ctx).findings();
  std::vector<std::string> pictures;
  if (plots && found.pictures)
    for (const Picture& picture : found.pictures()) {
      plots->write(picture.file, picture.content);
      pictures.push_back(picture.file);
    }
  if (options.json) {
    nlohmann::ordered_json out{
        {"recipe", file.recipe}, {"device", ctx.device()}, {"seed", file.request.seed}, {"steps", file.history.step}};
    if (!row.data.empty()) out["data"] = recipe.data, out["stand_in"] = recipe.stand_in;
    for (const auto& [name, value] : found.numbers) out[name] = value;
    if (!found.samples.empty()) out["samples"] = found.samples;
    std::cout << json_line(out);
  } else if (!options.quiet) {
    const Screen screen = output_screen();
    std::cout << fmt::format("{}, {} of {} steps\n\n{}\n", screen.styled(Style::strong, file.recipe), file.history.step,
                             recipe.schedule.steps, found.text(screen));
    std::cout << screen.fact("result", screen.styled(Style::strong, found.result));
    if (!pictures.empty()) std::cout << screen.fact("pictures", fmt::format("{}/: {}", options.plot, joined(pictures)));
  }
  if (nonfinite.empty()) return kDone;
  std::cout.flush();
  std::cerr << fmt::format("caravan: {} is of a model that diverged: {}, so these results mean nothing.\n", file.path,
                           nonfinite);
  return kCheckFailed;
}

}  // namespace caravan::app
