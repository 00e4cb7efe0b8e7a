// A small model as a C file: exclusive or, by two hidden units.
#include <caravan/caravan.h>
#include <caravan/deploy/c99.h>

using namespace caravan;

int main() {
  nn::Linear hidden("hidden", {.output = {2}}), out("out", {.output = {1}});
  Tensor x = input("x", {.output = {2}});
  Tensor y = out(relu(hidden(x))).named("y");

  Context ctx;
  ctx.write("hidden.weight", Array(parse_shape("2->2"), {1, 1, 1, 1}));
  ctx.write("hidden.bias", Array::vector({0, -1}));
  ctx.write("out.weight", Array(parse_shape("2->1"), {1, -2}));
  ctx.write("out.bias", Array::vector({0}));
  std::cout << deploy::to_c99(ctx, x, y, {.name = "xor", .about = "Exclusive or of two numbers that are 0 or 1."}).source;
}
