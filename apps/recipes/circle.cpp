// Inside a circle or outside: the classification experiment of the Camelax paper.
#include <fmt/format.h>

#include <numeric>

#include "apps/figures.h"
#include "apps/recipes/classify.h"
#include "apps/recipes/layers.h"
#include "caravan/data/loader.h"
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

plot::Confidence picture_of(const Predictions& p, const plot::Frame& frame) {
  std::vector<int64_t> shown(1000);
  std::iota(shown.begin(), shown.end(), 0);
  std::vector<double> outside;
  for (const int64_t i : shown) outside.push_back(p.probabilities[size_t(i)][1]);
  return {.title = "A thousand fresh points",
          .frame = frame,
          .points = p.inputs.take(shown),
          .probabilities = Array::vector(outside),
          .labels = p.labels.take(shown),
          .classes = {"inside", "outside"},
          .circle = plot::Circle{0, 0, kRadius}};
}

plot::Confidence picture_of(const Predictions& p, int width) {  // in characters, which are twice as high as wide
  const int columns = std::min(width - 4, 100);
  return picture_of(p, {-kHalfWidth, kHalfWidth, -kHalfWidth, kHalfWidth, columns, columns * 2 / 5});
}

std::string examples(const Predictions& p) {
  std::string out;
  for (size_t i = 0; i < 10; ++i)
    out += fmt::format("({:+.3f}, {:+.3f}) is {:<8} we say {:<8} {:5.1f} % sure\n", p.inputs.at(int64_t(2 * i)),
                       p.inputs.at(int64_t(2 * i + 1)), p.truth(i) ? "outside," : "inside,",
                       p.said(i) ? "outside," : "inside,", 100 * p.confidence(i));
  return out;
}

Findings findings(const Context& ctx, const nn::Mlp& mlp, uint64_t seed) {
  const data::LabelledPoints fresh = points_around(10'000, seed, "circle.test");
  const Predictions p = Predictor(
                            ctx, [&](const Tensor& x) { return nn::softmax(mlp(x)); }, fresh.points, fresh.labels)
                            .predict();
  const plot::Confusion table = confusion(p, "Fresh points", {"inside", "outside"});
  Findings out;
  out.numbers = {{"test_accuracy", p.accuracy()}};
  out.result = fmt::format("accuracy {} on 10,000 fresh points", percent(p.accuracy()));
  out.text = [=](const Screen& screen) {
    return fmt::format("{}\n{}\n{}",
                       screen.drawing(plot::text(picture_of(p, screen.width)), {{"o", Style::blue},
                                                                                {"O", Style::blue},
                                                                                {"x", Style::red},
                                                                                {"X", Style::red},
                                                                                {"!", Style::yellow},
                                                                                {".", Style::faint}}),
                       confusion_text(table, screen), examples(p));
  };
  out.pictures = [=]() -> std::vector<Picture> {
    return {{"predictions.svg", plot::svg(picture_of(p, 80))}, {"confusion.svg", plot::svg(table)}};
  };
  return out;
}

nn::Mlp network() { return nn::Mlp("mlp", {.widths = {100, 100, 2}, .activation = nn::Tanh()}); }

}  // namespace

Recipe circle_recipe(const Request& request) {
  const Schedule schedule = app::schedule(request, find_recipe("circle").defaults);
  const data::LabelledPoints points = points_around(schedule.points, schedule.seed, "circle.points");
  Index batch("batch", schedule.steps_per_epoch()), step("step");
  Tensor x = place(data::whole_batches(points.points, schedule.batch)[batch].named("x"), "data"),
         labels = place(data::whole_batches(points.labels, schedule.batch)[batch].named("labels"), "data");

  const nn::Mlp mlp = network();
  Tensor logits = mlp(x);
  Tensor loss = nn::cross_entropy(logits, labels).named("loss");
  Tensor right = mean(argmax("... | c => ... |", logits) == labels).named("right");
  Tensor lr = linear_decay(step, double(schedule.steps), schedule.lr);

  Recipe out{schedule, loss, train_step(loss, chosen_optimizer(schedule, lr)) & observe(right), batch, step, lr};
  out.model = "2-100-100-2 tanh";
  out.right = right;
  out.evaluate = [=](Context& ctx) {
    return Evaluation{.findings = [=] { return findings(ctx, mlp, schedule.seed); }};
  };
  return out;
}

std::vector<Part> circle_parts(const Request&) {
  return {{"classifier", parse_shape("2"),
           [mlp = network()](const Tensor& x) { return with_probabilities(layers_of(mlp, x)); }, true}};
}

}  // namespace caravan::app
