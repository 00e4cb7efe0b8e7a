#include "caravan/ir/write_form.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace caravan::ir {

using Part = Term::Part;

namespace {

// An axis of a write map as a*x + b*y + c. An iterator that it does not have is given the extent 1.
struct WriteAxis {
  struct Iterator {
    int64_t coefficient, extent;
    int64_t low() const { return std::min<int64_t>(0, coefficient * (extent - 1)); }
    int64_t high() const { return std::max<int64_t>(0, coefficient * (extent - 1)); }
  };
  Iterator x{1, 1}, y{0, 1};
  int64_t constant = 0;
  bool affine = true;     // at most two iterators, no index tensor
  bool symbolic = false;  // a symbol is added to it

  WriteAxis(const Term& term, const std::vector<int64_t>& extents) : constant(term.constant) {
    size_t iterators = 0;
    for (const Part& part : term.parts) {
      if (part.kind == Part::Kind::symbol) symbolic = true;
      if (part.kind == Part::Kind::load) affine = false;
      if (part.kind != Part::Kind::iterator) continue;
      const Iterator iterator{part.coefficient, extents[size_t(part.which)]};
      if (iterators == 0) x = iterator;
      if (iterators == 1) y = iterator;
      ++iterators;
    }
    affine = affine && iterators <= 2;
  }

  bool tells_apart() const {
    const int64_t g = std::gcd(x.coefficient, y.coefficient);
    return affine &&
           (y.coefficient == 0 || x.extent <= std::abs(y.coefficient) / g || y.extent <= std::abs(x.coefficient) / g);
  }
  // Does it take every value in [0, size)? True only if it can be proved: one iterator runs once through all residues
  // modulo the other's coefficient, and for each of them the other iterator reaches both ends of the range.
  bool reaches_all(int64_t size) const {
    auto reaches = [&](const Iterator& steps, const Iterator& residues) {
      const int64_t step = std::abs(steps.coefficient);
      return residues.extent == step && std::gcd(step, residues.coefficient) == 1 &&
             constant + steps.low() + residues.high() < step && constant + steps.high() + residues.low() >= size - step;
    };
    if (!affine || symbolic) return false;
    return size == 0 || (x.extent > 0 && y.extent > 0 && (reaches(x, y) || reaches(y, x)));
  }
};

}  // namespace

bool tells_apart(const Term& term, const std::vector<int64_t>& extents) {
  return WriteAxis(term, extents).tells_apart();
}

WriteForm write_form(const Program& program, const Accumulation& a) {
  WriteForm form;
  form.outer.assign(a.iterators.size(), false);
  form.injective = form.covers = true;
  std::vector<bool> known(a.iterators.size(), false);  // by iterator: does tells_apart() hold for an axis of it
  const std::vector<int64_t> sizes = program.buffers[size_t(a.target)].shape.sizes();
  for (size_t axis = 0; axis < a.write.size(); ++axis) {
    const WriteAxis form_of_axis(a.write[axis], a.extents);
    form.injective = form.injective && !a.write[axis].has_load();
    form.covers = form.covers && form_of_axis.reaches_all(sizes[axis]);
    for (const Part& part : a.write[axis].parts) {
      if (part.kind != Part::Kind::iterator) continue;
      const size_t k = size_t(part.which);
      form.covers = form.covers && !form.outer[k];  // two axes with the same iterator do not reach all pairs of indices
      form.outer[k] = true;
      known[k] = known[k] || form_of_axis.tells_apart();
    }
  }
  for (size_t k = 0; k < known.size(); ++k) form.injective = form.injective && (known[k] || !form.outer[k]);
  form.covers = form.covers && form.injective;
  return form;
}

std::vector<size_t> reduced_iterators(const Accumulation& a, const WriteForm& form) {
  std::vector<size_t> out;
  for (size_t k = 0; k < a.iterators.size(); ++k)
    if (!form.outer[k] && a.order.lanes != int(k)) out.push_back(k);
  if (a.order.lanes >= 0) out.push_back(size_t(a.order.lanes));
  return out;
}

}  // namespace caravan::ir
