// expect: a padded window needs `+ kernel`
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of(const Tensor& x) {
#ifdef BAD
  return einsum("o=, k => o", x);
#else
  return einsum("o=+k, k => o", x);
#endif
}
