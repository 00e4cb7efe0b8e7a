// expect: calls a function that generated code does not have
#include "caravan/codegen/functions.h"

namespace caravan {

#ifdef BAD
constexpr OpRow kRows[] = {{.name = "log_gamma", .arity = 1, .c = "lgamma(a)"}};
#else
constexpr OpRow kRows[] = {{.name = "softplus", .arity = 1, .c = "((a > 0 ? a : 0) + log1p(exp(-fabs(a))))"}};
#endif
static_assert(codegen::row_without_function(kRows) == -1, "a row calls a function that generated code does not have");

}  // namespace caravan
