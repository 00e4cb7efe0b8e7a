// expect: a stride is at least 1
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of(const Tensor& x) {
#ifdef BAD
  return einsum("0*n => n", x);
#else
  return einsum("2*n => n", x);
#endif
}
