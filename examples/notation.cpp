// Attention and convolution are notation, not kernels.
#include <caravan/caravan.h>
using namespace caravan;

int main() {
  Tensor q = normal("q", {.batch = {2, 8}, .output = {4, 64}, .step = 0}), k = normal("k", {.batch = {2, 8}, .output = {4, 64}, .step = 0});
  Dim d;  // captured from the spec, usable as a number
  Tensor scores = einsum("... s | h d; ... t | h d => ... s | t -> h", q, k, {{"d", d}}) / sqrt(d);

  Tensor x = einsum("=> b | h, w, c", 1.0, {{"b", 2}, {"h", 9}, {"w", 9}, {"c", 3}});
  Tensor kernel = param("kernel", {.input = {3, 3, 3}, .output = {16}, .init = ones()}), bias = param("bias", {.init = constant(0.5)});
  Tensor y = einsum("... | s*oh+d*kh, s*ow+d*kw, ic; kh, kw, ic -> oc => ... | oh, ow, oc", x, kernel, {{"s", 2}, {"d", 1}}) + bias;

  Context ctx({.seed = 1});
  std::cout << "scores " << ctx.shape(scores) << ", of deviation " << ctx.eval(round(10 * sqrt(mean(square(scores)))) / 10) << '\n';
  std::cout << "every element of y is " << ctx.eval(smallest(y)) << " = " << ctx.eval(largest(y)) << '\n';
  std::cout << "y " << ctx.shape(y) << ", bias " << ctx.shape(bias) << '\n';
}
