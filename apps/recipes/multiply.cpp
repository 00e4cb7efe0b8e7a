// x * y from x and y by ReLUs, small and large: experiments of the Camelax paper, whose appendix lists ten predictions.
#include <fmt/format.h>

#include <cmath>

#include "apps/recipes/layers.h"
#include "apps/recipes/recipe.h"
#include "caravan/data/synthetic.h"

namespace caravan::app {

namespace {

data::LabelledPoints random_pairs(int64_t points, uint64_t seed, const char* stream) {
  return data::products({.points = points, .seed = seed, .stream = stream});
}

nn::Mlp network(const Extents& widths) { return nn::Mlp("mlp", {.widths = widths}); }

Findings findings(Context look, const nn::Mlp& mlp, uint64_t seed) {
  auto predicted = [&](const data::LabelledPoints& fresh) {
    return look.eval(mlp(tensor(fresh.points, "fresh pairs")));
  };
  const data::LabelledPoints shown = random_pairs(10, seed, "multiply.examples"),
                             fresh = random_pairs(1000, seed, "multiply.test");
  const Array answers = predicted(shown), tested = predicted(fresh);
  double total = 0;
  for (int64_t i = 0; i < tested.size(); ++i) total += std::fabs(tested.at(i) - fresh.labels.at(i));
  const double error = total / double(tested.size());
  Findings found;
  found.numbers = {{"mean_absolute_error", error}};
  found.result = fmt::format("mean absolute error {:.4f} on {} fresh pairs", error, tested.size());
  found.text = [=](const Screen&) {
    std::string out;
    for (int64_t i = 0; i < 10; ++i)
      out += fmt::format("{:.6f} * {:.6f} = {:.6f}, we predict {:.6f}\n", shown.points.at(2 * i),
                         shown.points.at(2 * i + 1), shown.labels.at(i), answers.at(i));
    return out;
  };
  return found;
}

Recipe multiply(const Request& request, const char* name, const Extents& widths) {
  const Schedule schedule = app::schedule(request, find_recipe(name).defaults);
  const data::LabelledPoints pairs = random_pairs(schedule.points, schedule.seed, "multiply.pairs");
  Index batch("batch", schedule.steps_per_epoch()), step("step");
  Tensor x = pairs.points.batches(schedule.batch)[batch].named("x"),
         y = pairs.labels.batches(schedule.batch)[batch].named("y");

  const nn::Mlp mlp = network(widths);
  Tensor loss = (sum(square(mlp(x) - y)) / schedule.batch).named("loss");
  Tensor lr = linear_decay(step, double(schedule.steps), schedule.lr);

  Recipe out{schedule, loss, train_step(loss, chosen_optimizer(schedule, lr)), batch, step, lr};
  out.model = widths.size() == 2 ? "2-5-1 ReLU" : "2-100-100-1 ReLU";
  out.evaluate = [=](Context& ctx) {
    return Evaluation{.findings = [=] { return findings(interpreted(ctx), mlp, schedule.seed); }};
  };
  return out;
}

std::vector<Part> multiply_parts(const Extents& widths) {
  return {{"product", parse_shape("2"), [mlp = network(widths)](const Tensor& x) { return layers_of(mlp, x); }}};
}

}  // namespace

Recipe multiply_small_recipe(const Request& request) { return multiply(request, "multiply-small", {5, 1}); }
std::vector<Part> multiply_small_parts(const Request&) { return multiply_parts({5, 1}); }
Recipe multiply_large_recipe(const Request& request) { return multiply(request, "multiply-large", {100, 100, 1}); }
std::vector<Part> multiply_large_parts(const Request&) { return multiply_parts({100, 100, 1}); }

}  // namespace caravan::app
