// A classifier of digits, trained in batches of 64 of which the last has 40, then asked about one digit and about 200.
#include <caravan/caravan.h>
using namespace caravan;

int main() {
  data::Digits digits = data::drawn_digits(1000, 200, 1);
  Array images = data::unit_pixels(digits.train.images), labels = digits.train.labels;  // 1000|28,28,1 and 1000|
  Array test = data::unit_pixels(digits.test.images);

  nn::Mlp net("net", {.widths = {64, 10}});
  Context ctx({.seed = 1});
  Optimizer optimizer = adam({.lr = 2e-3});
  Function step(ctx, [&](Tensor x, Tensor y) { return train_step(nn::cross_entropy(net(x), y), optimizer); });
  for (int epoch = 0; epoch < 10; ++epoch)
    for (const auto& batch : data::batches(data::shuffled({images, labels}, epoch), 64)) step(batch[0], batch[1]);

  Function predict(ctx, [&](Tensor x) { return argmax("... | c => ... |", net(x)); });
  Tensor right = mean(tensor(predict(test)) == digits.test.labels);
  std::cout << "the first digit is read as " << predict(test.part(0, 1)) << '\n';
  std::cout << "accuracy above 85 %: " << (ctx.eval(right).item() > 0.85 ? "yes" : "no") << '\n';
  std::cout << "batch sizes compiled: " << step.sizes() << " to train, " << predict.sizes() << " to predict\n";
}
