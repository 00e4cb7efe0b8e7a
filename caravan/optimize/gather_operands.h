// Makes a contraction (contraction.h) of a product that reads an operand through an index tensor: the elements that it
// reads are copied first, each once.
//
//     y[m, n] += t[ids[m], k] * w[k, n]    becomes    rows[m, k] = t[ids[m], k]
//                                                     y[m, n] += rows[m, k] * w[k, n]
//
// Without the copy, every column n would look for the element again, and no tile could be loaded. Runs before the order
// of sums is chosen, which is another one for contractions. A term whose index is out of range is left out by the first
// form, and is 0 times the other factor in the second one, which is the same unless that factor is infinite or NaN.
//
// Refuses what would not be a contraction after it, products that read two operands so, and indices that the product
// also uses as numbers.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/target/target.h"

namespace caravan::optimize {

ir::Program gather_operands(const ir::Program& program, const Target& target);

}  // namespace caravan::optimize
