// Data dependence between the iterations of loops. Fusion, parallel loops and vector loops ask here whether they may
// reorder iterations.
#pragma once

#include <map>
#include <set>

#include "caravan/loop/loop.h"

namespace caravan::loop {

// The extents of all loops in the block, at any depth. Where several loops have the same variable, the largest.
std::map<Variable, int64_t> extents_of(const Block& block);

// An offset in memory, seen from some loops that are analysed: the sum of a linear function of their variables, of
// terms that are constant while they run, and of a value in [low, high] that depends on the loops inside of them.
struct LoopOffset {
  std::vector<int64_t> shared;  // coefficient of each analysed loop
  // Coefficients of symbols and of variables of enclosing loops.
  std::map<std::pair<Term::Part::Kind, int>, int64_t> fixed;
  int64_t low = 0, high = 0;
  bool known = true;  // false if an index tensor takes part: its value may be anything
  bool operator==(const LoopOffset&) const = default;
};
LoopOffset loop_offset(const Term& term, const std::vector<Variable>& shared,
                       const std::map<Variable, int64_t>& inside);

int64_t coefficient(const Term& term, Variable variable);

// Do different iterations of the analysed loops touch different elements? In y[12*i + 3*j + k], where k < 3 runs inside
// and j < 4, they do: iterations of j are 3 elements apart, which is room for all k, and those of i 12 elements, which
// is room for all j and k. In general, sorted by stride, each stride must be at least the extent in memory of all that
// is below it. All offsets must have the same strides.
bool apart(const std::vector<LoopOffset>& offsets, const std::vector<int64_t>& extents);

// A loop that chooses one digit of an offset. In x[384*t + 64*h + d] with h < 6 and d < 64 the loop over h does: the
// rest of the offset is a multiple of 6*64 plus a number below 64. So iterations of this loop touch different elements,
// whatever loops are around it and inside of it.
struct Digit {
  Variable variable = -1;
  int64_t extent = 0, stride = 0;
};
// Is this a digit of the offset, where `width` neighbouring elements are touched? `extents` has the other loops.
bool has_digit(const Term& offset, const Digit& digit, const std::map<Variable, int64_t>& extents, int64_t width = 1);
// The offset where elements that differ in this digit have the same place: 64*t + d in the example.
Term without_digit(const Term& offset, const Digit& digit);

// Does the block write to a buffer from which one of its own definitions, outside of inner loops, loads?
bool overwrites_loads(const Block& block);

// May the iterations of a loop over `variable` with this body run in any order, or at the same time? Different
// iterations must write different elements, and every accumulator must be reset within the iteration.
bool independent(Variable variable, int64_t extent, const Block& body);

// The same, but the loop may also add to accumulators that are reset outside of it, and that it does not read: a lane
// that runs some of the iterations has a total of its own.
bool shared_by_lanes(const For& loop);

// Can inner loops use vectors along this loop? In every access within them, neighbouring iterations of this loop must
// touch neighbouring elements or the same element, and in at least one access neighbouring elements.
bool has_lanes(const For& loop);

// May the iterations run in lockstep: each statement for all of them before the next statement, and an inner loop
// entered once for all of them? Different iterations must write different elements. An accumulator that is reset
// outside of the loop may be added to only outside of inner loops, where the order of additions stays the same.
// Conditions around inner loops must be the same for all iterations.
bool side_by_side(const For& loop);

// On a GPU: the buffers in which a lane may find what another lane of its group has stored. The others that a kernel
// writes are touched once, or each of their elements by one lane: every access is in lane loops of the same extents,
// and its offset is the same function of them.
std::set<ir::BufferId> exchanged_by_lanes(const Kernel& kernel);

}  // namespace caravan::loop
