// Rewrites bodies to fewer entries that give the same bits:
//
//     x * 1, x - 0, --x, where(c, x, x)     become   x             (Body::equal_operand lists all of these)
//     bf16(x), bf16(f32(x))                 become   x             where x is a bf16
//     y = f32(x)                            becomes  y = x         where x and y are bf16: storing rounds anyway
//     2 * 3, 2 < 3                          become   6, true
//     x[i] * x[i]  with two operands x[i]   becomes  the same with one operand
//
// May run on any verified program. Promises the same bits for NaN, infinities and both zeros in every precision, and
// the same precision of every entry that stays. What is then unused is removed. Refuses x + 0, which turns -0 into 0,
// and x * 0, which is NaN for an infinity; an operand of another precision than the result (a bool times 1 is an i32);
// to cast away the rounding of a narrow float, which is computed in f32; and functions of numbers (exp, pow), which
// compiled code rounds in its own way: pow(x, 1) need not be x.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program simplify(const ir::Program& program);

}  // namespace caravan::optimize
