// Which elements the iterations of loops touch: what fusion, parallel and vector loops must know before they reorder.
#pragma once

#include <map>

#include "caravan/loop/loop.h"

namespace caravan::loop {

std::map<Variable, int64_t> extents_of(const Block& block);  // of every loop inside

// An offset as a function of some loops, what is fixed around them, and an interval for the loops inside.
struct RowOffset {
  std::vector<int64_t> shared;                                // a coefficient for each of the loops
  std::map<std::pair<Term::Part::Kind, int>, int64_t> fixed;  // symbols, and variables of loops around
  int64_t low = 0, high = 0;
  bool known = true;  // an index tensor's value may be anything
};
RowOffset row_offset(const Term& term, const std::vector<Variable>& shared, const std::map<Variable, int64_t>& inside);

int64_t coefficient(const Term& term, Variable variable);

// Do different iterations of the shared loops touch different elements? The offsets must be a mixed-radix number of
// the shared variables with room for the rest.
bool apart(const std::vector<RowOffset>& offsets, const std::vector<int64_t>& extents);

// Does the block write to a buffer that a definition at its top loads?
bool overwrites_loads(const Block& block);

// May the iterations of a loop over `variable` with this body run in any order, or at once? What it writes must lie
// apart, and its accumulators must be its own.
bool independent(Variable variable, int64_t extent, const Block& body);

// In the loops inside, are neighbours of this loop neighbours in memory, or one element?
bool has_lanes(const For& loop);

// May they run side by side: each statement for all of them before the next, an inner loop entered once for all? What
// is written must lie apart, accumulators from outside are only added to outside of inner loops (there the order
// stays), and conditions around inner loops are the same for all.
bool side_by_side(const For& loop);

}  // namespace caravan::loop
