#include <caravan/caravan.h>
using namespace caravan;

int main() {
  Tensor x = param("x", 2.0), y = param("y", 3.0), z = (x + y) * y;
  std::cout << Context().eval(z) << '\n';
}
