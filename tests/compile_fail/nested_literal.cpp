// expect: rows({{..}}) makes each an example, matrix({{..}}) makes two plain axes
#include <caravan/tensor/tensor.h>
using namespace caravan;

Tensor of() {
#ifdef BAD
  return tensor({{0}, {1}});
#else
  return rows({{0}, {1}});
#endif
}
