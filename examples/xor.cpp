// XOR: four examples, a network with one hidden layer.
#include <caravan/caravan.h>
using namespace caravan;

int main() {
  Array x = rows({{0, 0}, {0, 1}, {1, 0}, {1, 1}}), y = rows({{0}, {1}, {1}, {0}});

  nn::Mlp net("net", {.widths = {8, 1}, .activation = nn::Tanh()});
  Tensor loss = nn::mse(net(x), y);

  Context ctx({.seed = 1});
  Routine step = ctx.compile(train_step(loss, adam({.lr = 0.05})));
  for (int epoch = 0; epoch < 500; ++epoch) step.run();

  std::cout << "loss below 0.001: " << (step.read(loss).item() < 0.001 ? "yes" : "no") << '\n';
  std::cout << ctx.eval(round(net(x))) << '\n';
}
