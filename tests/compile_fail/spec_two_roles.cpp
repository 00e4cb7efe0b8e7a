// expect: this name is used as an axis and as a row variable
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of(const Tensor& x) {
#ifdef BAD
  return einsum("r, ..r.. => r", x);
#else
  return einsum("q, ..r.. => q", x);
#endif
}
