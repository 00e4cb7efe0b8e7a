// Handwritten digits by dense layers: one image at a time as in the Camelax paper, or in batches.
#include <fmt/format.h>

#include "apps/recipes/digits.h"
#include "apps/recipes/layers.h"
#include "caravan/base/error.h"

namespace caravan::app {

namespace {

constexpr double kPaperRate = 1e-4;

// A batch of one is the paper's network; more is a wider one, which needs them.
bool one_at_a_time(const Wishes& wishes) { return wishes.whole_batch.value_or(wishes.batch.value_or(1)) == 1; }

struct DigitsMlp {
  nn::Mlp mlp;
  explicit DigitsMlp(const Wishes& wishes)
      : mlp("mlp", one_at_a_time(wishes) ? nn::MlpOptions{.widths = {100, 100, 100, 10}, .activation = nn::Tanh()}
                                         : nn::MlpOptions{.widths = {512, 512, 10}, .activation = nn::Relu()}) {}
  Tensor operator()(const Tensor& x) const { return mlp(flattened(x)); }
};

Defaults defaults(const Wishes& wishes) {
  Defaults out = find_recipe("mnist-mlp").defaults;
  if (wishes.paper) out.lr = kPaperRate;
  if (!one_at_a_time(wishes)) out.epochs = 10, out.lr = 0.05, out.optimizer = "momentum";
  return out;
}

// The published run has no other sizes, rates or optimisers.
void check_paper(const Wishes& wishes) {
  if (wishes.batch.value_or(1) == 1 && wishes.lr.value_or(kPaperRate) == kPaperRate &&
      wishes.optimizer.value_or("sgd") == "sgd")
    return;
  throw ConfigError(fmt::format(
      "--paper is one image at a time, sgd and the rate {}; leave out --batch, --lr and --optimizer.", kPaperRate));
}

}  // namespace

Recipe mnist_mlp_recipe(const Request& request) {
  const bool paper = request.wishes.paper;
  if (paper) check_paper(request.wishes);
  const auto [digits, schedule, batch, step, x, labels] = digit_batches(request, defaults(request.wishes), !paper);

  const DigitsMlp network(request.wishes);
  Tensor loss = nn::cross_entropy(network(x), labels).named("loss");
  Tensor lr = paper ? step * 0 + tunable(schedule.lr, "lr") : linear_decay(step, double(schedule.steps), schedule.lr);

  Recipe out{schedule, loss, train_step(loss, chosen_optimizer(schedule, lr)), batch, step, lr};
  out.model = one_at_a_time(request.wishes) ? "784-100-100-100-10 tanh" : "784-512-512-10 ReLU";
  add_digit_findings(out, digits, [=](const Tensor& images) { return nn::softmax(network(images)); });
  if (paper && !digits.drawn) out.published = {0.83, {}, 0.91, {}, 0.9324};
  return out;
}

std::vector<Part> mnist_mlp_parts(const Request& request) {
  return {{"classifier", parse_shape(kDigitShape),
           [network = DigitsMlp(request.wishes)](const Tensor& x) {
             return with_probabilities(layers_of(network.mlp, flattened(x)));
           },
           true}};
}

}  // namespace caravan::app
