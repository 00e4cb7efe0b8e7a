// Rewrites bodies to fewer entries that give the same bits. Replaces an entry that equals one of its operands (x * 1,
// x - 0, --x, where(c, x, x), see Body::equal_operand), removes casts to the precision that the operand already has or
// had before a cast to a wider one, and a cast to a wider one before the value is stored in the precision that it had,
// folds arithmetic and comparisons of constants, and merges operands that read the same element.
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
