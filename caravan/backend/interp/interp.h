// The interpreter: executes an ir::Program point by point in double. Slow and obvious, the oracle of every backend.
//
// Floats are double whatever their precision: nothing is rounded except where the program says `cast`.
// Integers and bool too are computed in double and brought to their precision only when an accumulation stores its
// totals: integers then wrap (infinities saturate, NaN is 0). So an integer is exact while it stays below 2^53 inside
// one accumulation. Sums are taken in iterator order, the last iterator fastest. Random bits are plain numbers, 0 ..
// 2^width - 1, whatever the precision of their buffer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "caravan/ir/program.h"

namespace caravan::interp {

using Values = std::vector<double>;           // the elements of a buffer in memory order
using State = std::map<std::string, Values>;  // by name; every StateLeaf that a program reads must be there

// Runs the program, which must be verified, once: reads the old state, computes, then replaces the assigned states.
// Returns the observed buffers' values, in the order of `program.observed`. A failure leaves `state` as it was.
// `symbols` has one value per symbol of the program; a value outside its range is a StateError naming the symbol.
std::vector<Values> run(const ir::Program& program, State& state, const std::vector<int64_t>& symbols, uint64_t seed);

}  // namespace caravan::interp
