#include <algorithm>

#include "caravan/ir/program.h"

namespace caravan::ir {

std::string_view name(Collective::Kind kind) {
  switch (kind) {
    case Collective::Kind::all_reduce: return "all_reduce";
    case Collective::Kind::all_gather: return "all_gather";
    case Collective::Kind::reduce_scatter: return "reduce_scatter";
  }
  return "";
}

int64_t stripes_of_slice(const Program& program, const Accumulation& a) {
  const std::vector<int64_t> from = program.buffers[size_t(a.operands[0].buffer)].shape.sizes(),
                             to = program.buffers[size_t(a.target)].shape.sizes();
  if (from == to) return 1;
  int64_t out = 1;
  for (size_t axis = 0; from[axis] == to[axis]; ++axis) out *= from[axis];
  return std::max<int64_t>(out, 1);
}

}  // namespace caravan::ir
