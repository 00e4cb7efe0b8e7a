// expect: OpCallsKnownFunctions<caravan::Op::softplus
#include "caravan/codegen/functions.h"
#include "caravan/ops/table.h"

namespace caravan {

#ifdef BAD
constexpr OpRow kRows[] = {{.op = Op::exp, .name = "exp", .arity = 1, .c = "exp(a)"},
                           {.op = Op::softplus, .name = "softplus", .arity = 1, .c = "lgamma(a)"}};
#else
constexpr OpRow kRows[] = {
    {.op = Op::softplus, .name = "softplus", .arity = 1, .c = "((a > 0 ? a : 0) + log1p(exp(-fabs(a))))"}};
#endif
constexpr codegen::UnknownCall kUnknown = codegen::unknown_call(kRows);
template struct codegen::OpCallsKnownFunctions<kUnknown.op, kUnknown.function>;

}  // namespace caravan
