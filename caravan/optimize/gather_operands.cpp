#include "caravan/optimize/gather_operands.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "caravan/ops/op.h"
#include "caravan/optimize/contraction.h"
#include "caravan/optimize/reads.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;
using ir::Operand;
using ir::Term;
using Part = Term::Part;

namespace {

bool has_load(const std::vector<Term>& map) { return std::ranges::any_of(map, &Term::has_load); }

// The operand that the body reads through index tensors, if there is one such operand and nothing else has indices.
std::optional<size_t> gathered_operand(const ir::Program& program, const Accumulation& a) {
  if (has_load(a.write) || has_load(a.where) || a.collective) return std::nullopt;
  std::optional<size_t> out;
  for (size_t k = 0; k < a.operands.size(); ++k) {
    if (!has_load(a.operands[k].map)) continue;
    if (out || !a.body.reads(int(k)) || !ir::in_memory(program.buffers[size_t(a.operands[k].buffer)]))
      return std::nullopt;
    out = k;
  }
  if (!out) return out;
  for (const Term& term : a.operands[*out].map)
    for (const Part& part : term.parts)
      if (part.kind == Part::Kind::load && a.body.reads(part.which)) return std::nullopt;
  return out;
}

// The copy of what the operand reads: an axis for each iterator that it depends on.
Accumulation copy_of(const ir::Program& program, const Accumulation& a, size_t operand, std::vector<int>& iterators) {
  const Operand& from = a.operands[operand];
  Accumulation out;
  out.accumulator = Accumulator::add;
  out.operands = {from};
  std::vector<int> ids(a.operands.size(), -1);  // by operand of `a`: the operand of the copy
  for (Term& term : out.operands[0].map) {
    Term renamed = Term::number(term.constant);
    for (const Part& part : term.parts) {
      if (part.kind == Part::Kind::load && ids[size_t(part.which)] < 0) {
        ids[size_t(part.which)] = int(out.operands.size());
        out.operands.push_back(a.operands[size_t(part.which)]);
      }
      renamed.add(part.kind, part.kind == Part::Kind::load ? ids[size_t(part.which)] : part.which, part.coefficient);
    }
    term = std::move(renamed);
  }
  std::vector<Term> now(a.iterators.size());  // by iterator of `a`: that of the copy
  for (int k = 0; k < int(a.iterators.size()); ++k) {
    const bool used = std::ranges::any_of(out.operands, [&](const Operand& o) {
      return std::ranges::any_of(o.map, [&](const Term& t) { return t.mentions(k); });
    });
    if (!used) continue;
    now[size_t(k)] = Term::iterator(int(iterators.size()));
    out.write.push_back(now[size_t(k)]);
    iterators.push_back(k);
    out.iterators.push_back(a.iterators[size_t(k)]), out.extents.push_back(a.extents[size_t(k)]);
  }
  for (Operand& o : out.operands)
    for (Term& t : o.map) t = substitute(t, now);
  out.body.finish(out.body.load(0));
  out.target = BufferId(program.buffers.size());
  out.label = "gathered";
  out.source = a.source;
  return out;
}

// Changes the accumulation, and adds the copy before it, if that makes a contraction of it.
void gather(ir::Program& program, Accumulation& a, const Tuning& tuning) {
  const std::optional<size_t> operand = gathered_operand(program, a);
  if (!operand) return;
  std::vector<int> iterators;
  Accumulation copy = copy_of(program, a, *operand, iterators);
  const ir::Buffer from = program.buffers[size_t(a.operands[*operand].buffer)];
  Shape shape;
  for (const int64_t size : copy.extents) shape.output.push_back({size});
  program.buffers.push_back({"gathered " + from.name + " " + std::to_string(program.buffers.size()), std::move(shape),
                             from.dtype, ir::Computed{}, a.source});
  Accumulation product = a;
  product.operands[*operand] = {copy.target, {}};
  for (const int k : iterators) product.operands[*operand].map.push_back(Term::iterator(k));
  drop_unread(product);
  if (!is_contraction(program, product, tuning)) {
    program.buffers.pop_back();
    return;
  }
  program.accumulations.push_back(std::move(copy));
  a = std::move(product);
}

}  // namespace

ir::Program gather_operands(const ir::Program& program, const Target& target) {
  ir::Program out = program;
  std::vector<Accumulation> rest = std::exchange(out.accumulations, {});
  for (Accumulation& a : rest) {
    gather(out, a, target.tuning);
    out.accumulations.push_back(std::move(a));
  }
  return out;
}

}  // namespace caravan::optimize
