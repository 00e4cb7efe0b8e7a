// The interpreter: executes an ir::Program point by point in double. It is slow and simple; tests compare every other
// backend with it.
//
// Floats are double whatever their precision: nothing is rounded except where the program says `cast`.
// Integers and bool are exact: every entry of a body is computed in its own integer type, where it wraps, and so are
// totals. Sums are taken in iterator order, the last iterator fastest. Random bits are plain numbers, 0 .. 2^width - 1,
// whatever the precision of their buffer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "caravan/backend/exchange.h"
#include "caravan/ir/program.h"

namespace caravan::interp {

// The precision in which the interpreter keeps a buffer: f64 for every float, so that nothing is rounded.
DType kept_type(DType dtype);

// By name, in kept_type precision; must have every StateLeaf that a program reads.
using State = std::map<std::string, Array>;

// Runs the program, which must be verified, once: reads the old state, computes, then replaces the assigned states.
// Returns the observed buffers, in the order of `program.observed`. A failure leaves `state` as it was.
// `symbols` has one value per symbol of the program; a value outside its range is a StateError naming the symbol.
// Collectives are run by `exchange`.
std::vector<Array> run(const ir::Program& program, State& state, const std::vector<int64_t>& symbols, uint64_t seed,
                       backend::Exchange* exchange = nullptr);

}  // namespace caravan::interp
