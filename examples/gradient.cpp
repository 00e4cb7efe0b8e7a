#include <caravan/caravan.h>
using namespace caravan;

int main() {  // the gradient example of the Camelax paper
  Tensor x = param("x", 2.0), y = param("y", 3.0);
  Tensor z = (x + y) * y;
  auto [dx, dy] = grad(z, x, y);
  Context ctx;  // the best device there is
  std::cout << ctx.eval(z) << ' ' << ctx.eval(dx) << ' ' << ctx.eval(dy) << '\n';  // 15 3 8
  print_graph(std::cout, z, ctx);  // nodes, operands, values, gradients
}
