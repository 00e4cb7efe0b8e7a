// y = x w + b from noisy points: small enough to read every number of the graph.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <sstream>

#include "apps/recipes/recipe.h"
#include "apps/recipes/show_backward.h"
#include "caravan/base/random.h"
#include "caravan/data/loader.h"
#include "caravan/plot/fit.h"
#include "caravan/runtime/print.h"
#include "caravan/tensor/functions.h"
#include "caravan/train/optimizer.h"

namespace caravan::app {

namespace {

constexpr double kTrueW = 3, kTrueB = -0.5, kNoise = 0.1;

struct Points {
  Array x, y;  // n|
};
Points noisy_line(int64_t n, uint64_t seed) {
  Shape shape;
  shape.batch = {{n}};
  Points out{Array(shape), Array(shape)};
  for (int64_t i = 0; i < n; ++i) {
    const Word4 w = random_words(seed, hash_name("linear.points"), 0, uint64_t(i));
    const double x = 2 * unit_uniform(w[0]) - 1;
    out.x.set(i, x);
    out.y.set(i, kTrueW * x + kTrueB + kNoise * unit_normal(w[1], w[2]));
  }
  return out;
}

struct Line {
  Tensor w = param("w", 0.0), b = param("b", 0.0);
  Tensor operator()(const Tensor& x) const { return x * w + b; }
};

}  // namespace

Recipe linear_recipe(const Request& request) {
  const Schedule schedule = app::schedule(request, find_recipe("linear").defaults);
  const Points points = noisy_line(schedule.points, schedule.seed);
  Index batch("batch", schedule.steps_per_epoch()), step("step");
  Tensor x = place(data::whole_batches(points.x, schedule.batch)[batch].named("x"), "data"),
         y = place(data::whole_batches(points.y, schedule.batch)[batch].named("y"), "data");

  const Line line;
  Tensor loss = (sum(square(line(x) - y)) / schedule.batch).named("loss");
  Tensor lr = linear_decay(step, double(schedule.steps), schedule.lr);

  Recipe out{schedule, loss, train_step(loss, chosen_optimizer(schedule, lr)), batch, step, lr};
  out.before = [=](std::ostream& to, Context& ctx, const Screen& screen) {
    to << wrapped(fmt::format("The first batch of {} points, before training. Each node with its operands, value and "
                              "gradient:",
                              schedule.batch),
                  screen.width)
       << "\n\n";
    std::stringstream graph;
    print_graph(graph, loss, ctx, {{batch, 0}});
    for (std::string line; std::getline(graph, line);) {
      if (int64_t(line.size()) > screen.width)
        if (const size_t at = line.find(", grad="); at != line.npos) line.replace(at, 1, ",\n   ");
      to << line << '\n';
    }
    to << "\nThe backward pass, from the loss to what it depends on:\n\n";
    show_backward(to, loss, ctx, {{batch, 0}});
    to << '\n';
  };
  out.model = "y = x w + b";
  out.evaluate = [=](Context& ctx) {
    return Evaluation{.findings = [=] {
      const double w = ctx.read(line.w).item(), b = ctx.read(line.b).item();
      Findings found;
      found.numbers = {{"w", w}, {"b", b}, {"true_w", kTrueW}, {"true_b", kTrueB}};
      found.result = fmt::format("w = {:.4f} and b = {:.4f}", w, b);
      auto equation = [](double slope, double start) {  // "y = 3 x - 0.5"
        return fmt::format("y = {:.3g} x {} {:.3g}", slope, start < 0 ? '-' : '+', start < 0 ? -start : start);
      };
      const plot::Fit fit{
          "The points and the line",
          points.x,
          points.y,
          {{"learned: " + equation(w, b), w, b}, {"true: " + equation(kTrueW, kTrueB), kTrueW, kTrueB}}};
      found.text = [=](const Screen& screen) {
        const std::string drawn = plot::text(fit, std::min(screen.width - 4, 100));
        return screen.drawing(drawn, {{"o", Style::blue}, {"•", Style::red}, {".", Style::faint}}) +
               fmt::format("\n     learned     true\nw {:10.4f} {:8.4f}\nb {:10.4f} {:8.4f}\n", w, kTrueW, b, kTrueB);
      };
      found.pictures = [=]() -> std::vector<Picture> { return {{"line.svg", plot::svg(fit)}}; };
      return found;
    }};
  };
  return out;
}

std::vector<Part> linear_parts(const Request&) {
  return {{"line", Shape{}, [line = Line()](const Tensor& x) { return std::vector<Part::Layer>{{"y", line(x)}}; }}};
}

}  // namespace caravan::app
