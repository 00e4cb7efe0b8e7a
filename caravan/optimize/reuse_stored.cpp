#include "caravan/optimize/reuse_stored.h"

#include <algorithm>
#include <map>
#include <optional>

#include "caravan/ops/table.h"
#include "caravan/optimize/reads.h"
#include "caravan/optimize/remove_unused.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::Program;
using ir::Scalar;
using ir::Term;

namespace {

bool has_elementary_function(const ir::Body& body) {
  return std::any_of(body.entries().begin(), body.entries().end(),
                     [](const Scalar& s) { return s.kind == Scalar::Kind::apply && !is_arithmetic(s.op); });
}

// Does the accumulation compute every element of its target once, from indices that are plain iterators or numbers?
bool is_pointwise(const Program& program, const Accumulation& a) {
  return is_elementwise(program, a) && std::all_of(a.operands.begin(), a.operands.end(), [&](const ir::Operand& o) {
           return ir::in_memory(program.buffers[size_t(o.buffer)]) &&
                  std::all_of(o.map.begin(), o.map.end(), is_iterator_or_number);
         });
}

// Compares a part of a reader's body with the body of a producer, and finds which terms of the reader the producer's
// iterators are.
class Match {
 public:
  Match(const Accumulation& reader, const Accumulation& producer)
      : reader_(reader), producer_(producer), iterators_(producer.iterators.size()) {}

  bool same(int of_reader, int of_producer) {
    const Scalar &r = reader_.body.entries()[size_t(of_reader)], &p = producer_.body.entries()[size_t(of_producer)];
    if (r.kind != p.kind) return false;
    switch (r.kind) {
      case Scalar::Kind::constant: return r == p;
      case Scalar::Kind::position: return false;
      case Scalar::Kind::load:
        return same_load(reader_.operands[size_t(r.operand)], producer_.operands[size_t(p.operand)]);
      case Scalar::Kind::cast: return r.dtype == p.dtype && same(r.args[0], p.args[0]);
      case Scalar::Kind::apply: break;
    }
    bool out = r.op == p.op;
    for (int k = 0; out && k < row(r.op).arity; ++k) out = same(r.args[k], p.args[k]);
    return out;
  }
  // Where the reader finds the value in the producer's target.
  std::optional<std::vector<Term>> map() const {
    std::vector<Term> out;
    for (const Term& t : producer_.write) {
      if (t.is_constant()) {
        out.push_back(t);
        continue;
      }
      const std::optional<Term>& known = iterators_[size_t(t.parts[0].which)];
      if (!known) return std::nullopt;
      out.push_back(*known);
    }
    return out;
  }

 private:
  bool same_load(const ir::Operand& r, const ir::Operand& p) {
    if (r.buffer != p.buffer) return false;
    for (size_t axis = 0; axis < p.map.size(); ++axis) {
      const Term& term = p.map[axis];
      if (term.is_constant()) {
        if (r.map[axis] != term) return false;
        continue;
      }
      std::optional<Term>& known = iterators_[size_t(term.parts[0].which)];
      if (known && *known != r.map[axis]) return false;
      known = r.map[axis];
    }
    return true;
  }

  const Accumulation &reader_, &producer_;
  std::vector<std::optional<Term>> iterators_;  // by iterator of the producer
};

// Replaces the entry of the body by a load of the operand.
void replace(Accumulation& a, int entry, ir::Operand by) {
  auto at = std::find(a.operands.begin(), a.operands.end(), by);
  if (at == a.operands.end()) at = a.operands.insert(at, std::move(by));
  const int operand = int(at - a.operands.begin());
  ir::Body body;
  body.finish(body.add(a.body, [&](int k) { return k == entry ? body.load(operand) : -1; }));
  a.body = std::move(body);
  drop_unread(a);
}

}  // namespace

Program reuse_stored(const Program& program) {
  Program out = program;
  std::multimap<Op, size_t> stored;  // by the last op of the formula: accumulations whose results are loaded
  for (size_t r = 0; r < out.accumulations.size(); ++r) {
    Accumulation& reader = out.accumulations[r];
    for (int k = int(reader.body.entries().size()) - 1; k >= 0; --k) {
      const Scalar& s = reader.body.entries()[size_t(k)];
      if (s.kind != Scalar::Kind::apply) continue;
      const auto [begin, end] = stored.equal_range(s.op);
      for (auto p = begin; p != end; ++p) {
        const Accumulation& producer = out.accumulations[p->second];
        Match match(reader, producer);
        if (!match.same(k, producer.body.result())) continue;
        std::optional<std::vector<Term>> map = match.map();
        if (!map || !ir::reads_in_range(out, reader, {producer.target, *map})) continue;
        replace(reader, k, {producer.target, std::move(*map)});
        k = int(reader.body.entries().size());  // entries have other numbers now
        break;
      }
    }
    const DType dtype = out.buffers[size_t(reader.target)].dtype;
    const Scalar& last = reader.body.entries().back();
    const bool exact = dtype == DType::f32 || dtype == DType::f64;
    if (exact && last.kind == Scalar::Kind::apply && has_elementary_function(reader.body) &&
        is_pointwise(out, reader)) {
      std::vector<DType> dtypes;
      for (const ir::Operand& o : reader.operands) dtypes.push_back(out.buffers[size_t(o.buffer)].dtype);
      const ir::EntryType made = ir::types_of(reader.body, dtypes, {}).back();
      if (!made.weak && made.dtype == dtype) stored.emplace(last.op, r);
    }
  }
  return remove_unused(out);
}

}  // namespace caravan::optimize
