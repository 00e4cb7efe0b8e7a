// expect: the result has a row variable that no operand has
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of(const Tensor& x) {
#ifdef BAD
  return einsum("ij => ..r..", x);
#else
  return einsum("..r.. => ..r..", x);
#endif
}
