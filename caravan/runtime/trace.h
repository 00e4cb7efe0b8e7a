// A program from notation to values, in one JSON file: for people (indented, in the order in which things happen) and
// for tools.
//
// - program, device
// - constraints: what inference was asked, and what it found: axes by their names, tensors with rows and iterators
// - passes: each with its time, whether it changed anything, and how many accumulations or kernels it left
// - compiled: whether the code was in the cache, and if the program began on quickly compiled code: after how many
//   seconds and steps it changed over to the better code
// - kernels: each with the accumulations it came from and the buffers it reads and writes
// - values: of states, of what is observed and of what has a name: shape, range, mean, NaN, the first elements
//
// Numbers that are not finite, which JSON does not have, are null.
#pragma once

#include <iosfwd>

#include "caravan/runtime/context.h"

namespace caravan {

// What is traced.
struct TraceOptions {
  IndexValues indices{};             // the values of the indices with which the program is computed
  const Routine* routine = nullptr;  // the program as it was compiled; null: it is compiled now
};

// Values are those that the Context's state gives now; nothing is assigned.
void write_trace(std::ostream& out, const Program& program, Context& ctx, const TraceOptions& options = {});

}  // namespace caravan
