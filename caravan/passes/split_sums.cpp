#include "caravan/passes/split_sums.h"

#include <algorithm>

#include "caravan/ops/table.h"
#include "caravan/passes/reads.h"

namespace caravan::passes {

using ir::Accumulation;
using Part = ir::Term::Part;

namespace {

constexpr int64_t kLeastWritten = 8, kLeastReduced = 32;

bool side_by_side(const ir::Program& program, const Accumulation& a, int iterator) {
  bool any = false;
  for (size_t k = 0; k < a.operands.size(); ++k) {
    if (!a.body.reads(int(k))) continue;
    const int64_t s = stride(program, a.operands[k].buffer, a.operands[k].map, iterator);
    if (s != 0 && s != 1) return false;
    any = any || s == 1;
  }
  return any;
}

int chosen(const ir::Program& program, const Accumulation& a) {
  if (a.accumulator != Accumulator::add || !is_float(program.buffers[size_t(a.target)].dtype)) return -1;
  std::vector<bool> written(a.iterators.size(), false);
  for (const ir::Term& term : a.write)
    for (const Part& part : term.parts) {
      if (part.kind == Part::Kind::load) return -1;
      if (part.kind == Part::Kind::iterator) written[size_t(part.which)] = true;
    }
  int best = -1;
  for (int k = 0; k < int(a.iterators.size()); ++k) {
    const int64_t extent = a.extents[size_t(k)];
    if (written[size_t(k)]) {
      const bool innermost = stride(program, a.target, a.write, k) == 1;
      if (innermost && extent >= kLeastWritten && side_by_side(program, a, k)) return -1;
    } else if (extent >= kLeastReduced && (best < 0 || extent > a.extents[size_t(best)]) &&
               side_by_side(program, a, k)) {
      best = k;
    }
  }
  return best;
}

}  // namespace

ir::Program split_sums(const ir::Program& program) {
  ir::Program out = program;
  for (Accumulation& a : out.accumulations) a.split = chosen(program, a);
  return out;
}

}  // namespace caravan::passes
