// expect: `_` is reduced away, so it cannot stand in the result
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of(const Tensor& x) {
#ifdef BAD
  return einsum("ij => i_", x);
#else
  return einsum("i_ => i", x);
#endif
}
