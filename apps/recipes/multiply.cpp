// x * y from x and y by ReLUs, small and large: experiments of the Camelax paper, whose appendix lists ten predictions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/recipes/layers.h"
#include "apps/recipes/recipe.h"
#include "caravan/data/loader.h"
#include "caravan/data/synthetic.h"
#include "caravan/plot/surface.h"

namespace caravan::app {

namespace {

data::LabelledPoints random_pairs(int64_t points, uint64_t seed, const char* stream) {
  return data::products({.points = points, .seed = seed, .stream = stream});
}

nn::Mlp network(const Extents& widths) { return nn::Mlp("mlp", {.widths = widths}); }

plot::Surface surface(Context look, const nn::Mlp& mlp, int columns, int rows) {
  const plot::Frame frame{0, 3, 0, 3, columns, rows};
  plot::Surface out{"The product of x and y, as the model has it", frame,
                    look.eval(mlp(tensor(frame.centres(), "grid")))};
  std::vector<double> truth;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) truth.push_back(frame.x(column) * frame.y(row));
  out.truth = Array::vector(truth);
  return out;
}

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
  found.text = [=](const Screen& screen) {
    const int columns = std::min(screen.width - 4, 72);
    std::string out = plot::text(surface(look, mlp, columns, columns / 4)) + '\n';
    for (int64_t i = 0; i < 10; ++i)
      out += fmt::format("{:.6f} * {:.6f} = {:.6f}, we predict {:.6f}\n", shown.points.at(2 * i),
                         shown.points.at(2 * i + 1), shown.labels.at(i), answers.at(i));
    return out;
  };
  found.pictures = [=]() -> std::vector<Picture> { return {{"surface.svg", plot::svg(surface(look, mlp, 60, 60))}}; };
  return found;
}

Recipe multiply(const Request& request, const char* name, const Extents& widths) {
  const Schedule schedule = app::schedule(request, find_recipe(name).defaults);
  const data::LabelledPoints pairs = random_pairs(schedule.points, schedule.seed, "multiply.pairs");
  Index batch("batch", schedule.steps_per_epoch()), step("step");
  Tensor x = place(data::whole_batches(pairs.points, schedule.batch)[batch].named("x"), "data"),
         y = place(data::whole_batches(pairs.labels, schedule.batch)[batch].named("y"), "data");

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
