#include "caravan/optimize/run_forwards.h"

#include <algorithm>

#include "caravan/ops/op.h"
#include "caravan/optimize/reads.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::Operand;
using ir::Term;
using Part = Term::Part;

namespace {

bool mentions(const std::vector<Term>& map, int iterator) {
  return std::ranges::any_of(map, [&](const Term& term) { return term.mentions(iterator); });
}

// Every element of the target is one element of the operand, at the iterators of the write map.
bool is_copy(const Accumulation& a) {
  if (a.accumulator != Accumulator::add || a.body != ir::Body::identity() || a.operands.size() != 1) return false;
  if (!a.where.empty() || a.write.size() != a.iterators.size()) return false;
  for (size_t axis = 0; axis < a.write.size(); ++axis)
    if (a.write[axis] != Term::iterator(int(axis))) return false;
  return std::ranges::none_of(a.operands[0].map, [](const Term& term) { return term.has_load(); });
}

class Turner {
 public:
  explicit Turner(const ir::Program& program) : program_(program), copies_(program.buffers.size(), nullptr) {
    for (const Accumulation& a : program.accumulations)
      if (is_copy(a)) copies_[size_t(a.target)] = &a;
  }

  Accumulation turned(Accumulation a) const {
    if (keeps_position(a.accumulator) || a.body.uses_position()) return a;
    std::vector<Operand> read;
    for (const Operand& operand : a.operands) read.push_back(copied_from(operand));
    std::vector<Term> iterators;
    bool any = false;
    for (int k = 0; k < int(a.iterators.size()); ++k) {
      const bool turn = !mentions(a.write, k) && only_backwards(read, k);
      iterators.push_back(turn ? Term::number(a.extents[size_t(k)] - 1) - Term::iterator(k) : Term::iterator(k));
      any = any || turn;
    }
    if (!any) return a;
    for (Term& term : a.where) term = ir::substitute(term, iterators);
    for (Operand& operand : a.operands)
      for (Term& term : operand.map) term = ir::substitute(term, iterators);
    return a;
  }

 private:
  Operand copied_from(Operand operand) const {
    while (const Accumulation* copy = copies_[size_t(operand.buffer)]) {
      Operand from = copy->operands[0];
      for (Term& term : from.map) term = ir::substitute(term, operand.map);
      operand = std::move(from);
    }
    return operand;
  }
  bool only_backwards(const std::vector<Operand>& read, int iterator) const {
    bool any = false;
    for (const Operand& operand : read) {
      const int64_t step = stride(program_, operand.buffer, operand.map, iterator);
      if (step > 0) return false;
      any = any || step < 0;
    }
    return any;
  }

  const ir::Program& program_;
  // By target: the accumulation that only copies to it; null if there is none.
  std::vector<const Accumulation*> copies_;
};

}  // namespace

ir::Program run_forwards(const ir::Program& program) {
  const Turner turner(program);
  ir::Program out = program;
  for (Accumulation& a : out.accumulations) a = turner.turned(std::move(a));
  return out;
}

}  // namespace caravan::optimize
