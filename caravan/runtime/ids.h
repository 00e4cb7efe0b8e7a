// Ids that can be looked at before a run: those of gathers and scatters that are data or state, perhaps sliced. One
// that is out of range is most likely a mistake, and is refused; ids that are computed are not looked at, and
// contribute nothing where they are out of range.
#pragma once

#include <string>
#include <vector>

#include "caravan/ir/program.h"

namespace caravan {

// An axis that is indexed by elements of a leaf.
struct IdUse {
  ir::BufferId leaf = -1;
  std::vector<ir::Term> map;     // which of its elements: over the iterators below and the program's symbols
  std::vector<int64_t> extents;  // of the iterators
  int64_t size = 0;              // of the axis: ids lie in 0 .. size - 1
  std::string of;                // "ids of input axis 1 of `table` (gather, main.cpp:3)"
  Source where;                  // that line
};
std::vector<IdUse> id_uses(const ir::Program& program);

// Throws StateError naming the leaf, the position, the id and the range.
void check_ids(const ir::Program& program, const IdUse& use, const Array& ids);

}  // namespace caravan
