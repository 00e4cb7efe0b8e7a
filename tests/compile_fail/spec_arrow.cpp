// expect: expected `=>` and the result
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of(const Tensor& x) {
#ifdef BAD
  return einsum("ij", x);
#else
  return einsum("ij =>", x);
#endif
}
