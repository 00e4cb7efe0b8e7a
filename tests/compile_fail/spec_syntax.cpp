// expect: expected an axis before `,`
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of(const Tensor& x) {
#ifdef BAD
  return einsum("i,,j => i", x);
#else
  return einsum("i,j => i", x);
#endif
}
