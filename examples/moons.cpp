// Half-moons: an MLP whose sizes are inferred, hinge loss, decaying learning rate, one step for everything.
#include <caravan/caravan.h>
using namespace caravan;

int main() {
  Context ctx({.seed = 1});
  auto moons = data::half_moons({.points = 800, .noise = 0.1, .seed = 1});
  Index batch("batch", 80), step("step");
  Tensor x = moons.points.batches(10)[batch], y = moons.labels.batches(10)[batch];  // 10|2 and 10|1

  Tensor w1 = param("w1"), b1 = param("b1", {.output = {16}, .init = zeros()});
  Tensor w2 = param("w2"), b2 = param("b2", {.output = {16}, .init = zeros()});
  Tensor w3 = param("w3");
  auto mlp = [&](Tensor x) { return w3(relu(w2(relu(w1(x) + b1)) + b2)); };  // w(x): apply the linear map

  Tensor loss = sum(relu(1 - y * mlp(x))) / 10;
  Tensor lr = 0.1 * (2 - step / 6400.0);
  Routine train = ctx.compile(train_step(loss, sgd({.lr = lr, .weight_decay = 1e-4})));
  double epoch_loss = 0;
  for (int s = 0; s < 6400; ++s) {
    train.run({{batch, s % 80}, {step, s}});
    if (s % 80 == 0) epoch_loss = 0;
    epoch_loss += train.read(loss).item();
    if (s % 1600 == 1599) std::cout << "epoch " << (s + 1) / 80 << ": loss " << (epoch_loss < 0.1 ? "below 0.1" : "above 0.1") << '\n';
  }
}
