// Half-moons: an MLP whose sizes are inferred, hinge loss, decaying learning rate, one step for everything.
#include "apps/recipes/recipe.h"
#include "caravan/data/synthetic.h"
#include "caravan/train/optimizer.h"

namespace caravan::app {

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

  Recipe out{schedule, loss, train_step(loss, sgd({.lr = lr, .weight_decay = 1e-4})), batch, step, lr};
  out.boundary = [=](Context& ctx, int columns, int rows) -> plot::Scatter {
    const plot::Frame frame{-1.3, 2.3, -0.75, 1.25, columns, rows};
    return {"Decision boundary between the two moons", frame, moons.points, moons.labels,
            ctx.eval(mlp(tensor(frame.centres(), "grid")))};
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
