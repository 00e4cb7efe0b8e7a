// expect: a row has no C
#include "caravan/ops/spelling.h"

namespace caravan {

#ifdef BAD
constexpr OpRow kRows[] = {{.name = "half", .arity = 1, .c = "(a * (T)0.5"}};
#else
constexpr OpRow kRows[] = {{.name = "half", .arity = 1, .c = "(a * (T)0.5)"}};
#endif
static_assert(row_without_spelling(kRows) == -1, "a row has no C");

}  // namespace caravan
