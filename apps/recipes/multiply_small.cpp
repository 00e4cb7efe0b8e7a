// x * y from x and y by five ReLUs: the smallest experiment of the Camelax paper, whose appendix lists ten predictions.
#include <fmt/format.h>

#include <cmath>
#include <ostream>

#include "apps/recipes/recipe.h"
#include "caravan/data/synthetic.h"
#include "caravan/train/optimizer.h"

namespace caravan::app {

Recipe multiply_small_recipe(const Schedule& schedule) {
  const auto pairs = data::products({.points = schedule.points, .seed = schedule.seed});
  Index batch("batch", schedule.steps_per_epoch()), step("step");
  Tensor x = pairs.points.batches(schedule.batch)[batch].named("x"),
         y = pairs.labels.batches(schedule.batch)[batch].named("y");

  Tensor w1 = param("w1"), b1 = param("b1", {.output = {5}, .init = zeros()});
  Tensor w2 = param("w2"), b2 = param("b2", {.output = {1}, .init = zeros()});
  auto mlp = [=](Tensor x) { return w2(relu(w1(x) + b1)) + b2; };

  Tensor loss = (sum(square(mlp(x) - y)) / schedule.batch).named("loss");
  Tensor lr = linear_decay(step, double(schedule.steps), schedule.lr);

  Recipe out{schedule, loss, train_step(loss, sgd({.lr = lr})), batch, step, lr};
  auto predictions = [=](Context& ctx, const data::LabelledPoints& fresh) {
    return ctx.eval(mlp(tensor(fresh.points, "fresh pairs")));
  };
  out.after = [=](std::ostream& to, Context& ctx) {
    const auto fresh = data::products({.points = 10, .seed = schedule.seed, .stream = "multiply.examples"});
    const Array predicted = predictions(ctx, fresh);
    for (int64_t i = 0; i < 10; ++i)
      to << fmt::format("{:.6f} * {:.6f} = {:.6f}, we predict {:.6f}\n", fresh.points.at(2 * i),
                        fresh.points.at(2 * i + 1), fresh.labels.at(i), predicted.at(i));
  };
  out.results = [=](Context& ctx) -> std::map<std::string, double> {
    const auto fresh = data::products({.points = 1000, .seed = schedule.seed, .stream = "multiply.test"});
    const Array predicted = predictions(ctx, fresh);
    double total = 0;
    for (int64_t i = 0; i < predicted.size(); ++i) total += std::fabs(predicted.at(i) - fresh.labels.at(i));
    return {{"mean_absolute_error", total / double(predicted.size())}};
  };
  return out;
}

}  // namespace caravan::app
