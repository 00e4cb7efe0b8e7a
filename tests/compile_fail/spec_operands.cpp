// expect: the number of shapes before `=>` is not the number of operands
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of(const Tensor& x) {
#ifdef BAD
  return einsum("ij;jk => ik", x);
#else
  return einsum("ij => i", x);
#endif
}
