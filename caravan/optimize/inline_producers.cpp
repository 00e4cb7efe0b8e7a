#include "caravan/optimize/inline_producers.h"

#include <algorithm>

#include "caravan/ops/table.h"
#include "caravan/optimize/reads.h"
#include "caravan/optimize/remove_unused.h"
#include "caravan/target/tuning.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;
using ir::Program;
using ir::Scalar;
using ir::Term;
using Part = Term::Part;

namespace {

int64_t points(const Accumulation& a) {
  int64_t n = 1;
  for (int64_t e : a.extents) n *= e;
  return n;
}

bool reads_random(const Program& program, const Accumulation& a) {
  return std::any_of(a.operands.begin(), a.operands.end(), [&](const ir::Operand& o) {
    return std::holds_alternative<ir::RandomLeaf>(program.buffers[size_t(o.buffer)].kind);
  });
}
// Does the body compute nothing at a point? It is a load, or a number that arithmetic on numbers gives.
bool is_copy(const ir::Body& body) {
  const auto& entries = body.entries();
  std::vector<bool> number;
  for (const Scalar& s : entries) {
    auto of_numbers = [&](size_t arity) {
      return std::all_of(s.args, s.args + arity, [&](int arg) { return number[size_t(arg)]; });
    };
    number.push_back(s.kind == Scalar::Kind::constant || (s.kind == Scalar::Kind::cast && of_numbers(1)) ||
                     (s.kind == Scalar::Kind::apply && is_arithmetic(s.op) && of_numbers(size_t(row(s.op).arity))));
    if (!number.back() && s.kind != Scalar::Kind::load) return false;
  }
  return true;
}
// At most a handful of instructions: arithmetic, but no elementary functions such as exp.
bool is_cheap(const ir::Body& body) {
  if (body.entries().size() > kMostRepeated) return false;
  for (const Scalar& s : body.entries()) {
    if (s.kind != Scalar::Kind::apply) continue;
    bool arithmetic = row(s.op).result != ResultType::real || s.op == Op::div || s.op == Op::recip || s.op == Op::sqrt;
    if (!arithmetic) return false;
  }
  return true;
}

template <class Visit>
void for_each_term(const Accumulation& a, Visit visit) {
  for (const Term& t : a.where) visit(t);
  for (const Term& t : a.write) visit(t);
  for (const ir::Operand& o : a.operands)
    for (const Term& t : o.map) visit(t);
}
bool is_index(const Accumulation& a, size_t operand) {
  bool found = false;
  for_each_term(a, [&](const Term& t) {
    for (const Part& part : t.parts) found = found || (part.kind == Part::Kind::load && size_t(part.which) == operand);
  });
  return found;
}

class Inliner {
 public:
  explicit Inliner(const Program& program, bool only_copies = false)
      : only_copies_(only_copies),
        out_(program),
        producer_(program.buffers.size(), -1),
        readers_(program.buffers.size(), 0) {
    for (size_t k = 0; k < out_.accumulations.size(); ++k) {
      const Accumulation& a = out_.accumulations[k];
      producer_[size_t(a.target)] = int(k);
      for_each_read(program, a, [&](BufferId id) { ++readers_[size_t(id)]; });
    }
    for (BufferId id : program.observed) ++readers_[size_t(id)];
    for (const auto& a : program.assignments) ++readers_[size_t(a.value)];
    stored_.assign(program.buffers.size(), false);
    for (const auto& a : program.assignments) stored_[size_t(a.value)] = true;
    for (size_t k = out_.accumulations.size(); k-- > 0;) {  // if a copy is stored, so is what it copies
      const Accumulation& a = out_.accumulations[k];
      const bool copies = is_copy(a.body) && stored_[size_t(a.target)];
      for (const ir::Operand& o : a.operands)
        if (copies || points(a) > out_.buffers[size_t(o.buffer)].shape.elements()) stored_[size_t(o.buffer)] = true;
    }
  }

  Program run() {
    candidate_.resize(out_.accumulations.size());
    for (size_t r = 0; r < out_.accumulations.size(); ++r) {
      Accumulation& reader = out_.accumulations[r];
      for (size_t k = 0; k < reader.operands.size();) {
        const int p = producer_[size_t(reader.operands[k].buffer)];
        const bool inlined = p >= 0 && candidate_[size_t(p)] && wanted(reader, k, out_.accumulations[size_t(p)]) &&
                             substitute(reader, k, out_.accumulations[size_t(p)]);
        if (inlined) count_again(out_.accumulations[size_t(p)]);
        k = inlined ? 0 : k + 1;  // start again, because the operands are renumbered
      }
      candidate_[r] = is_elementwise(out_, reader);
    }
    return std::move(out_);
  }

 private:
  bool wanted(const Accumulation& reader, size_t k, const Accumulation& p) const {
    if (reader.collective) return false;  // it takes a whole buffer
    if (reader.body.entries().size() + p.body.entries().size() > kLongestBody || is_index(reader, k)) return false;
    const bool random = reads_random(out_, p);
    if (is_copy(p.body) && !random) return true;
    if (only_copies_) return false;
    if (points(reader) > out_.buffers[size_t(p.target)].shape.elements()) return false;
    // The value is stored anyway. A reduction loads it, instead of loading several operands and computing it again; so
    // does a copy, which a reduction may read.
    if (stored_[size_t(p.target)] && p.operands.size() > 1 && (!is_elementwise(out_, reader) || is_copy(reader.body)))
      return false;
    if (readers_[size_t(p.target)] == 1) return true;
    if (stored_[size_t(p.target)] && reads_alone(p)) return false;
    return is_cheap(p.body) && !random && is_read_less_often(p);
  }

  // Is the value computed from a sum, say, that nothing else reads? If others load the value and not the sum, the sum
  // need not be stored.
  bool reads_alone(const Accumulation& p) const {
    return p.operands.size() > 1 && std::any_of(p.operands.begin(), p.operands.end(), [&](const ir::Operand& o) {
             const int from = producer_[size_t(o.buffer)];
             return from >= 0 && !candidate_[size_t(from)] && readers_[size_t(o.buffer)] == 1 &&
                    out_.buffers[size_t(o.buffer)].shape.elements() >= out_.buffers[size_t(p.target)].shape.elements();
           });
  }

  // Does inlining move fewer bytes than storing? Counted in arrays of the producer's size: if inlined, each of
  // `readers` reads all `arrays` operands; if stored, the operands are read once, and the result is written once and
  // read by each reader. So in a chain of sums with several readers each (the residual stream of a transformer), a
  // reader does not read the whole chain.
  bool is_read_less_often(const Accumulation& p) const {
    const int64_t size = out_.buffers[size_t(p.target)].shape.elements();
    if (size == 1) return true;  // a scalar moves almost no bytes
    const int64_t readers = readers_[size_t(p.target)];
    const auto arrays = std::count_if(p.operands.begin(), p.operands.end(), [&](const ir::Operand& o) {
      return 2 * out_.buffers[size_t(o.buffer)].shape.elements() > size;
    });
    return readers * arrays < arrays + 1 + readers;
  }

  // The producer has one reader less. If it was the last, its operands are now read by that reader; otherwise they have
  // one more.
  void count_again(const Accumulation& p) {
    if (readers_[size_t(p.target)]-- == 1) return;
    for_each_read(out_, p, [&](BufferId id) { ++readers_[size_t(id)]; });
  }

  bool substitute(Accumulation& reader, size_t k, const Accumulation& p) const {
    // The producer's iterators as terms of the reader's. Its write map is a permutation, so each axis gives one of
    // them.
    std::vector<Term> iterators(p.iterators.size());
    for (size_t axis = 0; axis < p.write.size(); ++axis)
      for (const Part& part : p.write[axis].parts) iterators[size_t(part.which)] = reader.operands[k].map[axis];
    std::vector<ir::Operand> operands = reader.operands;
    std::vector<int> renamed;  // operand of p -> operand of the reader
    for (const ir::Operand& from : p.operands) {
      ir::Operand o{from.buffer, {}};
      for (const Term& t : from.map) o.map.push_back(ir::substitute(t, iterators));
      if (!ir::reads_in_range(out_, reader, o)) return false;
      auto at = std::find(operands.begin(), operands.end(), o);
      if (at == operands.end()) at = operands.insert(at, std::move(o));
      renamed.push_back(int(at - operands.begin()));
    }

    std::vector<DType> dtypes;
    for (const ir::Operand& o : p.operands) dtypes.push_back(out_.buffers[size_t(o.buffer)].dtype);
    const DType kept = out_.buffers[size_t(p.target)].dtype;
    const ir::EntryType made = ir::types_of(p.body, dtypes, {}).back();
    // Storing an integer in a narrower type wraps. A body cannot express that, because a cast saturates.
    if (is_integer(kept) && is_integer(made.dtype) && made.dtype > kept) return false;

    ir::Body body;
    const bool narrow = kept == DType::f16 || kept == DType::bf16;  // computed in f32, so that storing it rounds
    auto producer_load = [&](int entry) {
      const Scalar& s = p.body.entries()[size_t(entry)];
      return s.kind == Scalar::Kind::load ? body.load(renamed[size_t(s.operand)]) : -1;
    };
    const int result = body.add(reader.body, [&](int entry) {
      const Scalar& s = reader.body.entries()[size_t(entry)];
      if (s.kind != Scalar::Kind::load || size_t(s.operand) != k) return -1;
      const int value = body.add(p.body, producer_load);
      return made.weak || made.dtype != kept || narrow ? body.cast(kept, value) : value;
    });
    body.finish(result);
    reader.body = std::move(body);
    reader.operands = std::move(operands);
    drop_unread(reader);
    return true;
  }

  const bool only_copies_;
  Program out_;
  std::vector<int> producer_, readers_;  // by buffer
  // By buffer: stored, because it is assigned, or because a reader of it or of a copy has more points than it has
  // elements.
  std::vector<bool> stored_;
  std::vector<bool> candidate_;  // by accumulation: can it be inlined
};

}  // namespace

Program inline_producers(const Program& program) { return remove_unused(Inliner(program).run()); }
Program inline_copies(const Program& program) { return remove_unused(Inliner(program, true).run()); }

}  // namespace caravan::optimize
