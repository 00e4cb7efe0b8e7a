#include "caravan/optimize/parts_of_sums.h"

#include <algorithm>

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;
using ir::Term;

SumSizes sizes_of(const Accumulation& a, const ir::WriteForm& form) {
  SumSizes out;
  for (size_t k = 0; k < form.outer.size(); ++k) (form.outer[k] ? out.sums : out.terms) *= a.extents[k];
  return out;
}

bool has_parts(const ir::Program& program, const Accumulation& a, const ir::WriteForm& form) {
  const DType dtype = program.buffers[size_t(a.target)].dtype;
  return a.accumulator == Accumulator::add && !a.part && (dtype == DType::f32 || dtype == DType::f64) &&
         form.injective && form.covers && a.where.empty() && !a.body.uses_position();
}

int divide(Accumulation& a, size_t k, int64_t size) {
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
  return block;
}

void append_parts(ir::Program& program, const Accumulation& whole, const ir::WriteForm& form, Accumulation first,
                  int kept) {
  // part[kept, every written iterator], and the second step over the same iterators.
  Accumulation second;
  second.accumulator = whole.accumulator, second.target = whole.target, second.after = whole.after;
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
  first.target = BufferId(program.buffers.size());
  first.label = "part of " + whole.label;
  program.buffers.push_back({"part of " + result.name + " " + std::to_string(program.buffers.size()), shape,
                             result.dtype, ir::Computed{}, result.where});
  second.operands = {{first.target, std::move(read)}};
  second.body = ir::Body::identity();
  program.accumulations.push_back(std::move(first));
  program.accumulations.push_back(std::move(second));
}

}  // namespace caravan::optimize
