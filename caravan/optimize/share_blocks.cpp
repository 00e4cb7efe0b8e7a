#include "caravan/optimize/share_blocks.h"

#include "caravan/ir/write_form.h"
#include "caravan/ops/op.h"
#include "caravan/optimize/contraction.h"
#include "caravan/optimize/parts_of_sums.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::SumOrder;

namespace {

bool is_long_sum(const ir::Program& program, const Accumulation& a, const ir::WriteForm& form, const Tuning& tuning) {
  if (!has_parts(program, a, form) || a.collective || a.order.lanes >= 0 || a.order.blocks.empty()) return false;
  const SumSizes sizes = sizes_of(a, form);
  return sizes.sums <= tuning.few_shared_sums && sizes.sums * sizes.terms >= 2 * tuning.parallel_work &&
         !is_contraction(program, a, tuning);
}

// The largest blocks of which there are enough: their place in the order, or -1.
int shared_blocks(const Accumulation& a, const ir::WriteForm& form, const Tuning& tuning) {
  const int outermost = int(ir::reduced_iterators(a, form)[0]);
  const int64_t extent = a.extents[size_t(outermost)];
  for (int level = int(a.order.blocks.size()) - 1; level >= 0; --level) {
    const SumOrder::Block& block = a.order.blocks[size_t(level)];
    if (block.iterator != outermost || extent % block.size != 0) return -1;
    if (extent / block.size >= tuning.least_shared_blocks)
      return extent / block.size <= tuning.most_chunks ? level : -1;
  }
  return -1;
}

}  // namespace

ir::Program share_blocks(const ir::Program& program, const Target& target) {
  ir::Program out = program;
  out.accumulations.clear();
  for (const Accumulation& whole : program.accumulations) {
    const ir::WriteForm form = ir::write_form(program, whole);
    const int level = is_long_sum(program, whole, form, target.tuning) ? shared_blocks(whole, form, target.tuning) : -1;
    if (level < 0) {
      out.accumulations.push_back(whole);
      continue;
    }
    const std::vector<SumOrder::Block>& blocks = whole.order.blocks;
    const SumOrder::Block block = blocks[size_t(level)];
    Accumulation first = whole;
    first.order.blocks.resize(size_t(level));
    const int kept = divide(first, size_t(block.iterator), block.size);
    append_parts(out, whole, form, std::move(first), kept);
    for (size_t larger = size_t(level) + 1; larger < blocks.size(); ++larger)
      out.accumulations.back().order.blocks.push_back({0, blocks[larger].size / block.size});
  }
  return out;
}

}  // namespace caravan::optimize
