// Solves write maps for their iterators, so that what was added into memory point by point (the gradient of a window, a
// transposed convolution) is gathered: one total per element, in a register.
//
// May run on any verified program. An axis written at s*x + d*y + c, where points overlap, is written at s*q + d*j + c:
// with g = gcd(s, d), y = |s|/g * m + j and q = x + d/s * (y - j), so that m is summed over, j goes through the
// residues of the stride, and x = q - d/s * |s|/g * m is read where it is inside its extent. Of x and y the one is
// solved for that leaves fewer points. Where g is 1, q reaches every element of the axis, and the target needs no fill.
// Promises the same points with the same values; only the order in which an element's contributions meet is another,
// so sums and products may round differently, and of zeros of both signs max and min may keep the other. The choice
// depends on the accumulation alone. A body's position stays that of the old iterators: it is read from an iota.
// Refuses, and leaves as it was, what would not become injective: index tensors in the write map, overlapping axes of
// three iterators, with a symbol, or with an iterator that another axis has too; argmax and argmin, which keep the
// first winner in the old order; and domains from which the verifier could not prove the reads any more.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program solve_writes(const ir::Program& program);

}  // namespace caravan::optimize
