// x * y from x and y by five ReLUs: the smallest experiment of the Camelax paper, whose appendix lists ten predictions.
#include <fmt/format.h>

#include <cmath>
#include <ostream>

#include "apps/recipes/recipe.h"
#include "caravan/base/random.h"
#include "caravan/train/optimizer.h"

namespace caravan::app {

namespace {

struct Pairs {
  Array xy;        // n|2, each in [0, 3)
  Array products;  // n|1
};
Pairs random_pairs(int64_t n, uint64_t seed, const char* stream) {
  const uint64_t key = hash_name(stream);
  std::vector<float> xy, products;
  for (int64_t i = 0; i < n; ++i) {
    const Word4 w = random_words(seed, key, 0, uint64_t(i));
    const float x = float(3 * unit_uniform(w[0])), y = float(3 * unit_uniform(w[1]));
    xy.insert(xy.end(), {x, y});
    products.push_back(x * y);
  }
  Shape shape;
  shape.batch = {{n}};
  shape.output = {{2}};
  Shape one = shape;
  one.output = {{1}};
  return {Array::from_floats(shape, xy.data()), Array::from_floats(one, products.data())};
}

}  // namespace

Recipe multiply_small_recipe(const Schedule& schedule) {
  const Pairs pairs = random_pairs(schedule.points, schedule.seed, "multiply.pairs");
  Index batch("batch", schedule.steps_per_epoch()), step("step");
  Tensor x = pairs.xy.batches(schedule.batch)[batch].named("x"),
         y = pairs.products.batches(schedule.batch)[batch].named("y");

  Tensor w1 = param("w1"), b1 = param("b1", {.output = {5}, .init = zeros()});
  Tensor w2 = param("w2"), b2 = param("b2", {.output = {1}, .init = zeros()});
  auto mlp = [=](Tensor x) { return w2(relu(w1(x) + b1)) + b2; };

  Tensor loss = (sum(square(mlp(x) - y)) / schedule.batch).named("loss");
  Tensor lr = linear_decay(step, double(schedule.steps), schedule.lr);

  Recipe out{schedule, loss, train_step(loss, sgd({.lr = lr})), batch, step, lr};
  auto predictions = [=](Context& ctx, const Pairs& fresh) { return ctx.eval(mlp(tensor(fresh.xy, "fresh pairs"))); };
  out.after = [=](std::ostream& to, Context& ctx) {
    const Pairs fresh = random_pairs(10, schedule.seed, "multiply.examples");
    const Array predicted = predictions(ctx, fresh);
    for (int64_t i = 0; i < 10; ++i)
      to << fmt::format("{:.6f} * {:.6f} = {:.6f}, we predict {:.6f}\n", fresh.xy.at(2 * i), fresh.xy.at(2 * i + 1),
                        fresh.products.at(i), predicted.at(i));
  };
  out.results = [=](Context& ctx) -> std::map<std::string, double> {
    const Pairs fresh = random_pairs(1000, schedule.seed, "multiply.test");
    const Array predicted = predictions(ctx, fresh);
    double total = 0;
    for (int64_t i = 0; i < predicted.size(); ++i) total += std::fabs(predicted.at(i) - fresh.products.at(i));
    return {{"mean_absolute_error", total / double(predicted.size())}};
  };
  return out;
}

}  // namespace caravan::app
