#include "caravan/optimize/split_long_sums.h"

#include <algorithm>

#include "caravan/ir/write_form.h"
#include "caravan/ops/op.h"
#include "caravan/target/block_size.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;
using ir::Term;

namespace {

struct Sizes {
  int64_t sums = 1, terms = 1;
};
Sizes sizes_of(const Accumulation& a, const ir::WriteForm& form) {
  Sizes out;
  for (size_t k = 0; k < a.extents.size(); ++k) (form.outer[k] ? out.sums : out.terms) *= a.extents[k];
  return out;
}

bool is_long_sum(const ir::Program& program, const Accumulation& a, const ir::WriteForm& form, const Gpu& gpu) {
  if (a.accumulator != Accumulator::add || a.part) return false;
  const DType dtype = program.buffers[size_t(a.target)].dtype;  // a part of a narrow float would round
  if (dtype != DType::f32 && dtype != DType::f64) return false;
  if (!form.injective || !form.covers || !a.where.empty() || a.body.uses_position()) return false;
  const Sizes sizes = sizes_of(a, form);
  return sizes.terms >= gpu.long_sum && sizes.sums <= gpu.few_sums;
}

// Divides iterator k into blocks of `size`: i becomes size * block + i. The number of the block is a new iterator,
// last.
void divide(Accumulation& a, size_t k, int64_t size) {
  const int block = int(a.iterators.size());
  auto change = [&](Term& term) {
    for (size_t p = 0; p < term.parts.size(); ++p)
      if (term.parts[p].kind == Term::Part::Kind::iterator && term.parts[p].which == int(k)) {
        const int64_t coefficient = term.parts[p].coefficient;
        term.add(Term::Part::Kind::iterator, block, coefficient * size);
        return;
      }
  };
  for (ir::Operand& operand : a.operands) std::for_each(operand.map.begin(), operand.map.end(), change);
  a.iterators.push_back(a.iterators[k] + "_block");
  a.extents.push_back(a.extents[k] / size);
  a.extents[k] = size;
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
    divide(a, k, a.extents[k] / parts);
    return int(a.iterators.size()) - 1;
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
    if (kept < 0) {
      out.accumulations.push_back(whole);
      continue;
    }
    // part[kept, every written iterator], and the second step over the same iterators.
    Accumulation second;
    second.accumulator = whole.accumulator, second.target = whole.target;
    second.label = whole.label, second.source = whole.source;
    std::vector<int> axes = {kept};
    for (size_t k = 0; k < form.outer.size(); ++k)
      if (form.outer[k]) axes.push_back(int(k));
    Shape shape;
    std::vector<Term> read;
    first.write.clear();
    std::vector<int> renamed(first.iterators.size(), -1);
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      const size_t k = size_t(axes[axis]);
      renamed[k] = int(axis);
      shape.output.push_back({first.extents[k]});
      first.write.push_back(Term::iterator(int(k)));
      second.iterators.push_back(first.iterators[k]), second.extents.push_back(first.extents[k]);
      read.push_back(Term::iterator(int(axis)));
    }
    for (const Term& term : whole.write) {
      Term moved = Term::number(term.constant);
      for (const Term::Part& part : term.parts)
        moved.add(part.kind, part.kind == Term::Part::Kind::iterator ? renamed[size_t(part.which)] : part.which,
                  part.coefficient);
      second.write.push_back(std::move(moved));
    }
    const ir::Buffer& result = program.buffers[size_t(whole.target)];
    first.target = BufferId(out.buffers.size());
    first.label = "part of " + whole.label;
    out.buffers.push_back({"part of " + result.name + " " + std::to_string(out.buffers.size()), shape, result.dtype,
                           ir::Computed{}, result.where});
    second.operands = {{first.target, std::move(read)}};
    second.body = ir::Body::identity();
    out.accumulations.push_back(std::move(first));
    out.accumulations.push_back(std::move(second));
  }
  return out;
}

}  // namespace caravan::optimize
