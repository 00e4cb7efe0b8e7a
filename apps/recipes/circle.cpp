// Inside a circle or outside: the classification experiment of the Camelax paper.
#include <fmt/format.h>

#include <numeric>

#include "apps/recipes/classify.h"
#include "apps/recipes/layers.h"
#include "caravan/data/synthetic.h"
#include "caravan/plot/confidence.h"

namespace caravan::app {

namespace {

constexpr double kRadius = 1.4, kHalfWidth = 2;

// Class 0 is inside, class 1 outside.
data::LabelledPoints points_around(int64_t points, uint64_t seed, const char* stream) {
  data::LabelledPoints out =
      data::disc({.points = points, .radius = kRadius, .half_side = kHalfWidth, .seed = seed, .stream = stream});
  const Shape classes = parse_shape(fmt::format("{}|", points));
  out.labels = out.labels.map([](double sign) { return sign < 0; }).cast(DType::i32).reshaped(classes);
  return out;
}

nn::Mlp network() { return nn::Mlp("mlp", {.widths = {100, 100, 2}, .activation = nn::Tanh()}); }

}  // namespace

Recipe circle_recipe(const Request& request) {
  const Schedule schedule = app::schedule(request, find_recipe("circle").defaults);
  const data::LabelledPoints points = points_around(schedule.points, schedule.seed, "circle.points");
  Index batch("batch", schedule.steps_per_epoch()), step("step");
  Tensor x = points.points.batches(schedule.batch)[batch].named("x"),
         labels = points.labels.batches(schedule.batch)[batch].named("labels");

  const nn::Mlp mlp = network();
  Tensor loss = nn::cross_entropy(mlp(x), labels).named("loss");
  Tensor lr = linear_decay(step, double(schedule.steps), schedule.lr);

  Recipe out{schedule, loss, train_step(loss, chosen_optimizer(schedule, lr)), batch, step, lr};
  out.examine = [=](Context& ctx) {
    const data::LabelledPoints fresh = points_around(10'000, schedule.seed, "circle.test");
    const Predictions p = predict(
        ctx, [&](const Tensor& x) { return nn::softmax(mlp(x)); }, fresh.points, fresh.labels);
    std::vector<int64_t> shown(1000);
    std::iota(shown.begin(), shown.end(), 0);
    std::vector<double> outside;
    for (const int64_t i : shown) outside.push_back(p.probabilities[size_t(i)][1]);
    const plot::Confidence picture{.title = "A thousand fresh points",
                                   .frame = {-kHalfWidth, kHalfWidth, -kHalfWidth, kHalfWidth, 64, 28},
                                   .points = fresh.points.take(shown),
                                   .probabilities = Array::vector(outside),
                                   .labels = fresh.labels.take(shown),
                                   .classes = {"inside", "outside"},
                                   .circle = plot::Circle{0, 0, kRadius}};
    Findings found;
    found.numbers = {{"test_accuracy", p.accuracy()}};
    found.text =
        fmt::format("{}\n{}\n", plot::text(picture), plot::text(confusion(p, "Fresh points", {"inside", "outside"})));
    for (size_t i = 0; i < 10; ++i)
      found.text +=
          fmt::format("({:+.3f}, {:+.3f}) is {:<8} we say {:<8} {:5.1f} % sure\n", p.inputs.at(int64_t(2 * i)),
                      p.inputs.at(int64_t(2 * i + 1)), p.truth(i) ? "outside," : "inside,",
                      p.said(i) ? "outside," : "inside,", 100 * p.confidence(i));
    found.pictures = [=]() -> std::vector<Picture> {
      return {{"predictions.svg", plot::svg(picture)},
              {"confusion.svg", plot::svg(confusion(p, "Fresh points", {"inside", "outside"}))}};
    };
    return found;
  };
  return out;
}

std::vector<Part> circle_parts(const Request&) {
  return {{"classifier", parse_shape("2"),
           [mlp = network()](const Tensor& x) { return with_probabilities(layers_of(mlp, x)); }, true}};
}

}  // namespace caravan::app
