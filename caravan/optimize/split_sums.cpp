#include "caravan/optimize/split_sums.h"

#include <algorithm>

#include "caravan/ir/write_form.h"
#include "caravan/ops/op.h"
#include "caravan/optimize/contraction.h"
#include "caravan/optimize/reads.h"
#include "caravan/target/block_size.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::SumOrder;

namespace {

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

int lanes(const ir::Program& program, const Accumulation& a, const std::vector<bool>& written, const Tuning& tuning) {
  int best = -1;
  for (int k = 0; k < int(a.iterators.size()); ++k) {
    const int64_t extent = a.extents[size_t(k)];
    if (written[size_t(k)]) {
      const bool innermost = stride(program, a.target, a.write, k) == 1;
      if (innermost && extent >= tuning.least_lanes && side_by_side(program, a, k)) return -1;
    } else if (extent >= tuning.least_summed && (best < 0 || extent > a.extents[size_t(best)]) &&
               side_by_side(program, a, k)) {
      best = k;
    }
  }
  return best;
}

// Walks the loops of the sum from the innermost outwards. `chain` is the length of the chain of additions that one
// iteration contains. A sum over several short loops (batch, height and width) is cut between two loops, or within one
// of them.
std::vector<SumOrder::Block> blocks(const Accumulation& a, const ir::WriteForm& form, const Tuning& tuning) {
  std::vector<SumOrder::Block> out;
  const std::vector<size_t> loops = ir::reduced_iterators(a, form);
  int64_t chain = 1;
  for (size_t n = loops.size(); n-- > 0;) {
    const int iterator = int(loops[n]);
    const bool in_lanes = iterator == a.order.lanes;
    const int64_t extent = a.extents[loops[n]];
    int64_t unit = in_lanes ? a.order.width : 1;
    int64_t left = extent / unit;
    while (chain * left > (out.empty() ? tuning.longest_chain : tuning.chain_outer_block)) {
      const int64_t size =
          std::max<int64_t>(1, block_size(left, (out.empty() ? tuning.chain_block : tuning.chain_outer_block) / chain));
      unit *= size, left /= size, chain = 1;
      out.push_back({iterator, unit});
    }
    // If the lanes do not divide the extent, they are added at every end of their loop.
    chain = in_lanes && extent % a.order.width != 0 ? a.order.width : chain * left;
  }
  return out;
}

// A contraction of more than `most_terms` terms is added in blocks, each of which a tile takes at a time. A block that
// does not divide its loop is followed by a shorter one. Few sums of many terms are added in slices too, which consist
// of such blocks, and which threads can compute at the same time.
std::vector<SumOrder::Block> tile_blocks(const Accumulation& a, const ir::WriteForm& form, const Tuning& tuning) {
  const std::vector<size_t> loops = ir::reduced_iterators(a, form);
  int64_t inside = 1;
  for (size_t n = loops.size(); n-- > 0; inside *= a.extents[loops[n]]) {
    const int64_t extent = a.extents[loops[n]];
    if (inside * extent <= tuning.most_terms) continue;
    const int64_t size = std::max<int64_t>(1, block_size(extent, tuning.most_terms / 2 / inside));
    std::vector<SumOrder::Block> out = {{int(loops[n]), size}};
    int64_t sums = 1, terms = 1;
    for (size_t k = 0; k < a.extents.size(); ++k) (form.outer[k] ? sums : terms) *= a.extents[k];
    const int64_t first = a.extents[loops[0]];
    const int64_t slices =
        sums > tuning.few_long_sums ? 1 : std::min({tuning.most_slices, terms / tuning.least_slice, first});
    for (int64_t count = slices; count > 1; --count)
      if (first % count == 0 && (n > 0 || first / count % size == 0)) {
        out.push_back({int(loops[0]), first / count});
        break;
      }
    return out;
  }
  return {};
}

SumOrder order(const ir::Program& program, Accumulation a, const Target& target) {
  const Tuning& tuning = target.tuning;
  const bool extreme = a.accumulator == Accumulator::max || a.accumulator == Accumulator::min;
  if ((a.accumulator != Accumulator::add && !extreme) || !is_float(program.buffers[size_t(a.target)].dtype)) return {};
  const ir::WriteForm form = ir::write_form(program, a);
  if (!form.injective) return {};
  a.order = {};
  if (target.kind == Target::Kind::cuda) {  // its lanes are chosen with its loops (schedule/map_to_grid.h)
    a.order.fused = target.fma && !extreme && !ir::reduced_iterators(a, form).empty();
    return a.order;
  }
  if (is_contraction(program, a, tuning)) {
    a.order.blocks = tile_blocks(a, form, tuning);
    a.order.fused = target.fma && target.kind == Target::Kind::cpu;
    return a.order;
  }
  a.order.lanes = lanes(program, a, form.outer, tuning);
  if (a.order.lanes >= 0) a.order.width = tuning.sum_lanes;
  if (extreme) return a.order;
  a.order.blocks = blocks(a, form, tuning);
  return a.order;
}

}  // namespace

ir::Program split_sums(const ir::Program& program, const Target& target) {
  ir::Program out = program;
  for (Accumulation& a : out.accumulations) {
    Accumulation seen = a;
    if (!a.chosen_by.empty()) seen.extents = a.chosen_by;
    a.order = order(program, std::move(seen), target);
    a.chosen_by.clear();
  }
  return out;
}

}  // namespace caravan::optimize
