#include "caravan/optimize/split_long_sums.h"

#include <algorithm>

#include "caravan/ir/write_form.h"
#include "caravan/ops/op.h"
#include "caravan/optimize/parts_of_sums.h"
#include "caravan/target/block_size.h"

namespace caravan::optimize {

using ir::Accumulation;

namespace {

bool is_long_sum(const ir::Program& program, const Accumulation& a, const ir::WriteForm& form, const Gpu& gpu) {
  if (!has_parts(program, a, form)) return false;
  const SumSizes sizes = sizes_of(a, form);
  return sizes.terms >= gpu.long_sum && sizes.sums <= gpu.few_sums;
}

// The iterator that the first step keeps: the first one that has enough values and leaves enough terms. A long one is
// divided.
int choose(Accumulation& a, const ir::WriteForm& form, const Gpu& gpu) {
  const int64_t terms = sizes_of(a, form).terms;
  for (size_t k = 0; k < form.outer.size(); ++k) {
    if (form.outer[k] || a.extents[k] < gpu.least_parts) continue;
    if (a.extents[k] <= gpu.most_parts && terms / a.extents[k] >= gpu.least_part) return int(k);
    const int64_t parts = block_size(a.extents[k], gpu.most_parts);
    if (a.extents[k] % parts != 0 || terms / parts < gpu.least_part) continue;
    return divide(a, k, a.extents[k] / parts);
  }
  return -1;
}

}  // namespace

ir::Program split_long_sums(const ir::Program& program, const Target& target) {
  ir::Program out = program;
  out.accumulations.clear();
  for (const Accumulation& whole : program.accumulations) {
    const ir::WriteForm form = ir::write_form(program, whole);
    Accumulation first = whole;
    const int kept = is_long_sum(program, whole, form, target.gpu) ? choose(first, form, target.gpu) : -1;
    if (kept < 0)
      out.accumulations.push_back(whole);
    else
      append_parts(out, whole, form, std::move(first), kept);
  }
  return out;
}

}  // namespace caravan::optimize
