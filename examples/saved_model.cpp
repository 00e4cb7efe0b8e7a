// A model is trained and saved, then loaded by what could be another program.
#include <caravan/caravan.h>
using namespace caravan;

struct Net {
  nn::Linear hidden{"hidden", {.output = {16}}}, out{"out", {.output = {1}}};
  Tensor operator()(const Tensor& x) const { return out(tanh(hidden(x))); }
};

int main() {
  Net net;
  auto moons = data::half_moons({.points = 200, .seed = 1});
  Context ctx({.seed = 1});
  Routine step = ctx.compile(train_step(nn::hinge(net(moons.points), moons.labels), adam({.lr = 0.01})));
  step.run_steps(500);
  save_checkpoint("moons.safetensors", ctx, {{"trained on", "moons"}}, parameters(net));

  Context other;
  load_checkpoint("moons.safetensors", other);
  Function before(ctx, net), after(other, net);
  const bool same = before(moons.points).values() == after(moons.points).values();
  std::cout << "the same predictions: " << (same ? "yes" : "no") << '\n';
  std::cout << "far up and far down: " << after(rows({{0, 3}, {1, -3}})).map([](double v) { return v > 0; }) << '\n';
}
