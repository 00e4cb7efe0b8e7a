// Training by hand: an Adam of one's own, a loss with an L1 term, gradients summed over four steps and applied at the last.
#include <caravan/caravan.h>

#include <cmath>
using namespace caravan;

// Adam, written as the paper does. Every tensor is an ordinary expression; the states are named after the parameter.
Program my_adam(const Gradients& gradients, double lr) {
  Program out;
  for (auto& [p, g] : gradients) {
    Tensor count = state(p.name() + ".count", {.batch = Extents{}, .input = Extents{}, .output = Extents{}, .init = zeros()}), t = count + 1;
    Tensor m = state_like(p, p.name() + ".mean", zeros()), v = state_like(p, p.name() + ".square", zeros());
    Tensor m_new = 0.9 * m + 0.1 * g, v_new = 0.999 * v + 0.001 * square(g);
    Tensor m_hat = m_new / (1 - pow(0.9, t)), v_hat = v_new / (1 - pow(0.999, t));
    out &= assign(m, m_new) & assign(v, v_new) & assign(p, p - lr * m_hat / (sqrt(v_hat) + 1e-8)) & assign(count, t);
  }
  return out;
}

int main() {
  // Only the first two of eight features matter; the L1 term finds out.
  Tensor x = normal("x", {.batch = {16, 4}, .output = {8}, .step = 0}), truth = tensor({2, -3, 0, 0, 0, 0, 0, 0});
  Index batch("batch"), step("step");
  Tensor xs = x[batch], target = einsum("n | i; i => n", xs, truth);

  Tensor w = param("w", {.output = {8}, .init = normal_init(0, 0.1)});
  Tensor loss = mean(square(einsum("n | i; i => n", xs, w) - target)) + 0.02 * sum(abs(w));

  Tensor last = mod(step, 4) == 3;
  Program sums;
  Gradients means;
  for (auto& [p, g] : gradients(loss)) {
    Tensor total = state_like(p, "total", zeros()), now = total + g;
    sums &= assign(total, where(last, 0.0, now));
    means.push_back({p, now / 4});
  }

  Context ctx({.seed = 1});
  Routine train = ctx.compile(sums & when(last, my_adam(means, 0.02)) & observe(loss));
  for (int s = 0; s < 2400; ++s) {
    train.run({{batch, s % 16}, {step, s}});
    if (s % 800 == 799) std::cout << "step " << s + 1 << ": loss " << std::round(10 * train.read(loss).item()) / 10 << '\n';
  }
  std::cout << "w is " << ctx.eval(round(10 * w) / 10 + 0) << '\n';  // + 0: without the sign of -0
}
