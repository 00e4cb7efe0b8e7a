// expect: at most one ellipsis in a row
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of(const Tensor& x) {
#ifdef BAD
  return einsum("... i ... => i", x);
#else
  return einsum("... i => i", x);
#endif
}
