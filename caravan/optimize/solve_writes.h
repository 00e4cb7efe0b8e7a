// Turns scatters into gathers. The gradient of a window and a transposed convolution write t[s*x + d*y + c], where
// several points add to one element in memory. Solved for the iterators, all points of one element follow each other,
// and its total is kept in a register.
//
// May run on any verified program. An axis that is written at s*x + d*y + c, where points overlap, becomes one that is
// written at s*q + d*j + c. With g = gcd(s, d), y = |s|/g * m + j and q = x + d/s * (y - j). The iterator m is summed
// over, j runs through the residues modulo |s|/g, and x = q - d/s * |s|/g * m is read where it is inside its extent.
// The roles of x and y are chosen so that fewer points remain. Where g is 1, q reaches every element of the axis, and
// the target need not be filled with 0 before.
//
// Promises the same points with the same values. Only the order in which the values of one element are combined
// changes, so sums and products may round differently, and max and min of 0 and -0 may keep the other one. The choice
// depends on the accumulation alone. A body that reads its position still gets that of the old iterators, from an iota
// operand.
//
// Refuses, and leaves unchanged, what would not become injective: index tensors in the write map; overlapping axes of
// three iterators, with a symbol, or with an iterator that another axis has too; argmax and argmin, which keep the
// first winner in the old order; and domains from which the verifier could no longer prove that reads are in range.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program solve_writes(const ir::Program& program);

}  // namespace caravan::optimize
