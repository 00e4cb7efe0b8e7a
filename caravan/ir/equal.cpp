// Structural equality: equal accumulations give the same kernel. Buffers are compared by their sizes in memory order
// and their precision, symbols by their number and range. Operands that are the same buffer in one accumulation must be
// the same in the other, because a kernel may load it once.
#include <algorithm>

#include "caravan/base/hash.h"
#include "caravan/ir/program.h"

namespace caravan::ir {

namespace {

const Buffer& buffer_of(const Program& program, BufferId id) { return program.buffers.at(size_t(id)); }

bool same_buffer(const Buffer& a, const Buffer& b) { return a.dtype == b.dtype && a.shape.sizes() == b.shape.sizes(); }

// The first operand that has the same buffer as operand k.
size_t first_alias(const Accumulation& a, size_t k) {
  size_t first = 0;
  while (a.operands[first].buffer != a.operands[k].buffer) ++first;
  return first;
}

struct Mixer {
  WordHash hash;
  void operator()(uint64_t word) { hash.add(word); }
  void operator()(const Term& term) {
    (*this)(uint64_t(term.constant));
    (*this)(term.parts.size());
    for (const Term::Part& part : term.parts) {
      (*this)(uint64_t(part.kind));
      (*this)(uint64_t(part.which));
      (*this)(uint64_t(part.coefficient));
    }
  }
  void operator()(const std::vector<Term>& terms) {
    (*this)(terms.size());
    for (const Term& term : terms) (*this)(term);
  }
  void operator()(const Buffer& buffer) {
    (*this)(uint64_t(buffer.dtype));
    for (int64_t size : buffer.shape.sizes()) (*this)(uint64_t(size));
  }
};

// Calls visit(term) on every term of the accumulation.
template <class Visit>
void for_each_term(const Accumulation& a, Visit visit) {
  for (const Term& term : a.where) visit(term);
  for (const Term& term : a.write) visit(term);
  for (const Operand& operand : a.operands)
    for (const Term& term : operand.map) visit(term);
}

}  // namespace

bool equal(const Program& p, const Accumulation& a, const Program& q, const Accumulation& b) {
  if (a.accumulator != b.accumulator || a.extents != b.extents || a.where != b.where || a.write != b.write ||
      a.counted != b.counted || a.order != b.order || a.part != b.part || a.collective != b.collective ||
      a.body != b.body || a.operands.size() != b.operands.size() ||
      !same_buffer(buffer_of(p, a.target), buffer_of(q, b.target)))
    return false;
  for (size_t k = 0; k < a.operands.size(); ++k)
    if (a.operands[k].map != b.operands[k].map || first_alias(a, k) != first_alias(b, k) ||
        !same_buffer(buffer_of(p, a.operands[k].buffer), buffer_of(q, b.operands[k].buffer)))
      return false;
  bool same_symbols = true;  // the terms are equal, so they name the same symbols
  for_each_term(a, [&](const Term& term) {
    for (const Term::Part& part : term.parts)
      if (part.kind == Term::Part::Kind::symbol)
        same_symbols = same_symbols && p.symbols.at(size_t(part.which)).range == q.symbols.at(size_t(part.which)).range;
  });
  return same_symbols;
}

size_t hash(const Program& program, const Accumulation& accumulation) {
  const Accumulation& a = accumulation;
  Mixer mix;
  mix(uint64_t(a.accumulator));
  for (int64_t extent : a.extents) mix(uint64_t(extent));
  mix(a.where);
  mix(a.write);
  for (bool counted : a.counted) mix(uint64_t(counted));
  mix(uint64_t(a.order.lanes)), mix(uint64_t(a.order.width)), mix(uint64_t(a.order.fused));
  for (const SumOrder::Block& block : a.order.blocks) mix(uint64_t(block.iterator)), mix(uint64_t(block.size));
  mix(hash(a.body));
  if (a.collective) mix(1 + uint64_t(a.collective->kind)), mix(uint64_t(a.collective->mesh_axis));
  mix(buffer_of(program, a.target));
  for (size_t k = 0; k < a.operands.size(); ++k) {
    mix(a.operands[k].map);
    mix(first_alias(a, k));
    mix(buffer_of(program, a.operands[k].buffer));
  }
  return size_t(mix.hash.value());
}

}  // namespace caravan::ir
