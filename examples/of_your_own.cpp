// A model, a loss and an optimiser of one's own, trained together; stopped halfway, saved, and continued elsewhere.
#include <caravan/caravan.h>

#include <cmath>
using namespace caravan;

struct Waves {  // a model: parameters, and what is done with them
  Tensor frequency = param("frequency", {.output = {16}, .init = normal_init(0, 4)});
  Tensor phase = param("phase", {.output = {16}, .init = uniform_init(-3, 3)});
  Tensor height = param("height", {.output = {1}, .init = normal_init(0, 0.1)});
  Tensor operator()(const Tensor& x) const { return height(sin(frequency * x + phase)); }
};

Tensor log_cosh(const Tensor& error) {  // a loss: square for small errors, linear for large ones
  return mean(abs(error) + softplus(-2 * abs(error)) - std::log(2));
}

Optimizer normalized(Operand lr) {  // an optimiser: momentum, in steps of one length for each parameter
  return [=](const Gradients& gradients) {
    Program out;
    for (auto& [p, g] : gradients) {
      Tensor momentum = state_like(p, p.name() + ".momentum", zeros()), next = 0.9 * momentum + 0.1 * g;
      out &= assign(momentum, next) & assign(p, p - lr * next / sqrt(sum(square(next)) + 1e-12));
    }
    return out;
  };
}

int main() {
  Tensor x = einsum("n => n | 0", iota(64) / 32.0 - 1), y = x * sin(6 * x);
  Index step("step");
  Tensor loss = log_cosh(Waves()(x) - y);
  Program train = train_step(loss, normalized(linear_decay(step, 2000, 0.05)));

  Context whole({.seed = 1});
  Routine all = whole.compile(train);
  all.run({{step, 0}});
  double first = all.read(loss).item();
  all.run_steps(1999, {{step, 1}});

  Context before({.seed = 1}), after;
  before.compile(train).run_steps(1000, {{step, 0}});
  save_checkpoint("halfway.safetensors", before, {{"step", "1000"}});
  Routine rest = after.compile(train);
  load_checkpoint("halfway.safetensors", after);
  rest.run_steps(1000, {{step, 1000}});

  std::cout << "the loss fell to less than a hundredth: " << (all.read(loss).item() < first / 100 ? "yes" : "no") << '\n';
  std::cout << "stopped and continued, the same bits: ";
  bool same = after.names() == whole.names();
  for (const std::string& name : whole.names()) same = same && after.read(name).values() == whole.read(name).values();
  std::cout << (same ? "yes" : "no") << ", in";
  for (const std::string& name : whole.names()) std::cout << ' ' << name;
  std::cout << '\n';
}
