// Half-moons: an MLP whose sizes are inferred, hinge loss, decaying learning rate, one step for everything.
#include <fmt/format.h>

#include <ostream>

#include "apps/recipes/recipe.h"
#include "apps/text_plot.h"
#include "caravan/data/synthetic.h"
#include "caravan/train/optimizer.h"

namespace caravan::app {

namespace {

constexpr Frame kFrame{-1.3, 2.3, -0.75, 1.25, 72, 22};

Array grid_of(const Frame& frame) {  // the centres of its cells
  std::vector<double> xy;
  for (int row = 0; row < frame.height; ++row)
    for (int column = 0; column < frame.width; ++column) xy.insert(xy.end(), {frame.x(column), frame.y(row)});
  Shape shape;
  shape.batch = {{int64_t(frame.width) * frame.height}};
  shape.output = {{2}};
  return Array(shape, xy);
}

}  // namespace

Recipe moons_recipe(const Schedule& schedule) {
  const auto moons = data::half_moons({.points = schedule.points, .noise = 0.1, .seed = schedule.seed});
  Index batch("batch", schedule.steps_per_epoch()), step("step");
  Tensor x = moons.points.batches(schedule.batch)[batch].named("x"),
         y = moons.labels.batches(schedule.batch)[batch].named("y");

  Tensor w1 = param("w1"), b1 = param("b1", {.output = {16}, .init = zeros()});
  Tensor w2 = param("w2"), b2 = param("b2", {.output = {16}, .init = zeros()});
  Tensor w3 = param("w3");
  auto mlp = [=](Tensor x) { return w3(relu(w2(relu(w1(x) + b1)) + b2)); };

  Tensor loss = (sum(relu(1 - y * mlp(x))) / schedule.batch).named("loss");
  Tensor lr = schedule.lr * (2 - step / double(schedule.steps));

  Recipe out{schedule, loss, train_step(loss, sgd({.lr = lr, .weight_decay = 1e-4})), batch, step, {}, {}, {}};
  out.after = [=](std::ostream& to, Context& ctx) {
    const Array scores = ctx.eval(mlp(tensor(grid_of(kFrame), "grid")));
    to << "Decision boundary: o and x are the two moons, dots are where the network says x\n\n"
       << scatter(kFrame, moons.points, moons.labels, scores);
  };
  out.results = [=](Context& ctx) -> std::map<std::string, double> {
    const Array scores = ctx.eval(mlp(tensor(moons.points, "points")));
    double right = 0;
    for (int64_t i = 0; i < scores.size(); ++i) right += scores.at(i) * moons.labels.at(i) > 0;
    return {{"train_accuracy", right / double(scores.size())}};
  };
  return out;
}

}  // namespace caravan::app
