// caravan train: runs a recipe's step, shows how the loss falls and what came out.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/commands.h"
#include "apps/progress.h"
#include "apps/text_plot.h"
#include "caravan/base/error.h"

namespace caravan::app {

namespace {

struct Run {
  std::vector<double> epoch_losses;  // summed over the steps of each epoch, the last one perhaps unfinished
  std::deque<double> last_epoch;     // losses of the last steps, at most an epoch's
  double seconds = 0;

  double loss() const { return last_epoch.back(); }
  double epoch_loss() const { return std::accumulate(last_epoch.begin(), last_epoch.end(), 0.0); }
};

Run run_steps(const Recipe& recipe, Context& ctx, bool quiet) {
  const int64_t per_epoch = recipe.schedule.steps_per_epoch(), steps = recipe.schedule.steps;
  const int64_t epochs = (steps + per_epoch - 1) / per_epoch;
  Routine step = ctx.compile(recipe.program);
  Progress progress(epochs, 10, quiet);
  Run out;
  const auto start = std::chrono::steady_clock::now();
  for (int64_t s = 0; s < steps; ++s) {
    step.run(recipe.at(s));
    const double loss = step.read(recipe.loss).item();
    if (s % per_epoch == 0) out.epoch_losses.push_back(0);
    out.epoch_losses.back() += loss;
    out.last_epoch.push_back(loss);
    if (int64_t(out.last_epoch.size()) > per_epoch) out.last_epoch.pop_front();
    if ((s + 1) % per_epoch == 0 || s + 1 == steps)
      progress.at(s / per_epoch + 1,
                  fmt::format("epoch {} of {}: loss {:.4g}", s / per_epoch + 1, epochs, out.epoch_losses.back()));
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace

int train_command(const TrainOptions& options, const Settings& settings) {
  const Recipe recipe = make_recipe(options.recipe, options.wishes, settings.seed());
  const Schedule& schedule = recipe.schedule;
  Context ctx({.seed = settings.seed(), .device = settings.device()});

  if (!options.quiet && recipe.before) recipe.before(std::cout, ctx);
  const Run run = run_steps(recipe, ctx, options.quiet);
  if (!options.quiet) {
    std::cout << '\n' << curve(run.epoch_losses, "Loss, summed over an epoch", "epoch") << '\n';
    if (recipe.after) recipe.after(std::cout, ctx);
    std::cout << fmt::format("\n{} steps in {:.2f} s on {}, loss of the last epoch {:.4g}\n", schedule.steps,
                             run.seconds, ctx.device(), run.epoch_loss());
  }
  if (options.json) {
    nlohmann::ordered_json out{{"recipe", options.recipe},
                               {"device", ctx.device()},
                               {"threads", 1},
                               {"seed", settings.seed()},
                               {"steps", schedule.steps},
                               {"seconds", run.seconds},
                               {"steps_per_second", double(schedule.steps) / run.seconds},
                               {"loss", run.loss()},
                               {"epoch_loss", run.epoch_loss()},
                               {"batch", schedule.batch},
                               {"lr", schedule.lr}};
    for (const auto& [name, value] : recipe.results(ctx)) out[name] = value;
    std::cout << out.dump() << '\n';
  }
  if (std::isfinite(run.loss())) return kDone;
  std::cerr << fmt::format("caravan: training diverged: the last loss is {}; try a rate below --lr {}.\n", run.loss(),
                           schedule.lr);
  return kCheckFailed;
}

}  // namespace caravan::app
