// Handwritten digits by convolutions.
#include "apps/recipes/digits.h"
#include "apps/recipes/layers.h"

namespace caravan::app {

namespace {

struct DigitsConv {
  nn::Conv2d conv1{"conv1", {.channels = 32}}, conv2{"conv2", {.channels = 64}};
  nn::MaxPool2d pool;
  nn::Linear dense1{"dense1", {.output = {128}}}, dense2{"dense2", {.output = {10}}};

  std::vector<Part::Layer> layers(const Tensor& x) const {
    Tensor first = pool(relu(conv1(x))), second = pool(relu(conv2(first)));
    Tensor hidden = relu(dense1(flattened(second)));
    return {{"conv 1", first}, {"conv 2", second}, {"hidden", hidden}, {"output", dense2(hidden)}};
  }
  Tensor operator()(const Tensor& x) const { return layers(x).back().value; }
};

}  // namespace

Recipe mnist_conv_recipe(const Request& request) {
  const auto [digits, schedule, batch, step, x, labels] = digit_batches(request, find_recipe("mnist-conv").defaults);

  const DigitsConv network;
  Tensor loss = nn::cross_entropy(network(x), labels).named("loss");
  Tensor lr = linear_decay(step, double(schedule.steps), schedule.lr);

  Recipe out{schedule, loss, train_step(loss, chosen_optimizer(schedule, lr)), batch, step, lr};
  out.model = "two 3x3 convolutions (32, 64) with pools, dense 128-10, ReLU";
  add_digit_findings(out, digits, [=](const Tensor& images) { return nn::softmax(network(images)); });
  return out;
}

std::vector<Part> mnist_conv_parts(const Request&) {
  return {{"classifier", parse_shape(kDigitShape),
           [network = DigitsConv()](const Tensor& x) { return with_probabilities(network.layers(x)); }, true}};
}

}  // namespace caravan::app
