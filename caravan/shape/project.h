// From a solved relation to loops: the iterators with their extents, and for every slot the index of each axis.
#pragma once

#include "caravan/ir/index.h"
#include "caravan/shape/system.h"

namespace caravan::shape {

struct Projection {
  std::vector<std::string> iterators;  // outermost first
  std::vector<int64_t> extents;
  std::vector<bool> reduced;  // true iff the iterator does not appear in the relation's result slot
  // By slot, one term per axis in memory order; empty for slots outside the clause. In these terms `symbol` numbers
  // `symbols` below, and `load` names a slot.
  std::vector<std::vector<ir::Term>> slots;
  std::vector<ir::Term> where;  // the points of the box that count: each >= 0
  std::vector<SymbolRef> symbols;
};

// One clause of a relation. Every slot of the clause must be inside its shape for a point to count; terms whose range
// shows that they are need no condition.
Projection project(const Relation& relation, int clause, const Instance& instance, const Solution& solution);

}  // namespace caravan::shape
