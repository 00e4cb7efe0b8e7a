// Half-moons: an MLP whose sizes are inferred, hinge loss, decaying learning rate, one step for everything.
#include <fmt/format.h>

#include <algorithm>

#include "apps/figures.h"
#include "apps/recipes/recipe.h"
#include "caravan/data/loader.h"
#include "caravan/data/synthetic.h"
#include "caravan/plot/plot.h"
#include "caravan/tensor/functions.h"

namespace caravan::app {

namespace {

struct MoonsMlp {
  Tensor w1 = param("w1"), b1 = param("b1", {.output = {16}, .init = zeros()});
  Tensor w2 = param("w2"), b2 = param("b2", {.output = {16}, .init = zeros()});
  Tensor w3 = param("w3", {.output = {1}});  // a part alone, without labels, must know it too
  std::vector<Part::Layer> layers(const Tensor& x) const {
    Tensor first = relu(w1(x) + b1), second = relu(w2(first) + b2);
    return {{"hidden 1", first}, {"hidden 2", second}, {"score", w3(second)}};
  }
  Tensor operator()(const Tensor& x) const { return layers(x).back().value; }
};

plot::Scatter boundary(Context look, const MoonsMlp& network, const data::LabelledPoints& moons, int columns,
                       int rows) {
  const plot::Frame frame{-1.3, 2.3, -0.75, 1.25, columns, rows};
  return {"Decision boundary between the two moons", frame, moons.points, moons.labels,
          look.eval(network(tensor(frame.centres(), "grid")))};
}

Findings findings(Context look, const MoonsMlp& network, const data::LabelledPoints& moons) {
  const Array scores = look.eval(network(tensor(moons.points, "points")));
  int64_t right = 0;
  for (int64_t i = 0; i < scores.size(); ++i) right += scores.at(i) * moons.labels.at(i) > 0;
  const double accuracy = double(right) / double(scores.size());
  Findings found;
  found.numbers = {{"train_accuracy", accuracy}};
  found.result = fmt::format("accuracy {} on the {} points", percent(accuracy), scores.size());
  found.text = [=](const Screen& screen) {
    const int columns = std::min(screen.width - 4, 110);
    return screen.drawing(plot::text(boundary(look, network, moons, columns, columns * 3 / 10)),
                          {{"o", Style::blue}, {"x", Style::red}, {".", Style::faint}});
  };
  found.pictures = [=]() -> std::vector<Picture> {
    return {{"boundary.svg", plot::svg(boundary(look, network, moons, 144, 80))}};
  };
  return found;
}

}  // namespace

Recipe moons_recipe(const Request& request) {
  const Schedule schedule = app::schedule(request, find_recipe("moons").defaults);
  const auto moons = data::half_moons({.points = schedule.points, .noise = 0.1, .seed = schedule.seed});
  Index batch("batch", schedule.steps_per_epoch()), step("step");
  Tensor x = place(data::whole_batches(moons.points, schedule.batch)[batch].named("x"), "data"),
         y = place(data::whole_batches(moons.labels, schedule.batch)[batch].named("y"), "data");

  const MoonsMlp network;
  Tensor score = network(x);
  Tensor loss = (sum(relu(1 - y * score)) / schedule.batch).named("loss");
  Tensor right = mean(y * score > 0).named("right");
  Tensor lr = tunable(schedule.lr, "lr") * (2 - step / tunable(double(schedule.steps), "steps"));

  Recipe out{schedule, loss, train_step(loss, chosen_optimizer(schedule, lr)) & observe(right), batch, step, lr};
  out.model = "2-16-16-1 ReLU";
  out.right = right;
  out.evaluate = [=](Context& ctx) {
    return Evaluation{.findings = [=] { return findings(interpreted(ctx), network, moons); }};
  };
  return out;
}

std::vector<Part> moons_parts(const Request&) {
  return {{"score", parse_shape("2"), [network = MoonsMlp()](const Tensor& x) { return network.layers(x); }}};
}

}  // namespace caravan::app
