#include "caravan/passes/inline.h"

#include <algorithm>
#include <map>
#include <set>

#include "caravan/lower/lower.h"
#include "caravan/ops/table.h"

namespace caravan::passes {

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

bool is_copy(const ir::Body& body) {
  return std::all_of(body.entries().begin(), body.entries().end(), [](const Scalar& s) { return s.kind == Scalar::Kind::load || s.kind == Scalar::Kind::constant; });
}
// A handful of instructions: no function of the reals but arithmetic.
bool is_cheap(const ir::Body& body) {
  if (body.entries().size() > 16) return false;
  for (const Scalar& s : body.entries()) {
    if (s.kind != Scalar::Kind::apply) continue;
    bool arithmetic = row(s.op).result != ResultType::real || s.op == Op::div || s.op == Op::recip || s.op == Op::sqrt;
    if (!arithmetic) return false;
  }
  return true;
}

// Each element computed once, all of them written, by a body that can stand anywhere.
bool can_inline(const Program& program, const Accumulation& p) {
  if (keeps_position(p.accumulator) || !p.where.empty() || p.body.uses_position()) return false;
  lower::WriteForm form = lower::write_form(program, p);
  return form.covers && std::all_of(form.outer.begin(), form.outer.end(), [](bool o) { return o; });
}

class Inliner {
 public:
  explicit Inliner(const Program& program) : out_(program) {
    for (size_t k = 0; k < out_.accumulations.size(); ++k) {
      const Accumulation& a = out_.accumulations[k];
      producer_[a.target] = k;
      for (const ir::Operand& o : a.operands) ++readers_[o.buffer];
    }
    for (BufferId id : program.observed) ++readers_[id];
    for (const auto& a : program.assignments) ++readers_[a.value];
  }

  Program run() {
    for (Accumulation& reader : out_.accumulations) {
      bool changed = true;
      while (changed) {
        changed = false;
        for (size_t k = 0; k < reader.operands.size() && !changed; ++k) {
          auto at = producer_.find(reader.operands[k].buffer);
          if (at == producer_.end() || !wanted(reader, k, out_.accumulations[at->second])) continue;
          substitute(reader, k, out_.accumulations[at->second]);
          changed = true;
        }
      }
    }
    return std::move(out_);
  }

 private:
  bool wanted(const Accumulation& reader, size_t k, const Accumulation& p) const {
    if (!can_inline(out_, p) || reader.body.entries().size() + p.body.entries().size() > 200) return false;
    for (const Accumulation* a : {&reader})  // an index tensor is read from memory
      for (const ir::Operand& o : a->operands)
        for (const Term& t : o.map)
          for (const Part& part : t.parts)
            if (part.kind == Part::Kind::load && size_t(part.which) == k) return false;
    for (const Term& t : reader.write)
      for (const Part& part : t.parts)
        if (part.kind == Part::Kind::load && size_t(part.which) == k) return false;
    if (is_copy(p.body)) return true;
    int64_t elements = out_.buffers[size_t(p.target)].shape.elements();
    if (points(reader) > elements) return false;
    return is_cheap(p.body) || readers_.at(p.target) == 1;
  }

  void substitute(Accumulation& reader, size_t k, const Accumulation& p) {
    // The producer's iterators as terms of the reader: its write map is a permutation of them.
    std::vector<Term> iterators(p.iterators.size());
    for (size_t axis = 0; axis < p.write.size(); ++axis)
      for (const Part& part : p.write[axis].parts) iterators[size_t(part.which)] = reader.operands[k].map[axis];
    std::vector<int> renamed(p.operands.size());  // operand of p -> operand of the reader
    auto moved = [&](const Term& t) {
      Term out = Term::number(t.constant);
      for (const Part& part : t.parts) {
        if (part.kind == Part::Kind::iterator) out = out + iterators[size_t(part.which)] * part.coefficient;
        else out.add(part.kind, part.kind == Part::Kind::load ? renamed[size_t(part.which)] : part.which, part.coefficient);
      }
      return out;
    };
    std::vector<ir::Operand> operands = reader.operands;
    auto place = [&](const ir::Operand& o) {
      auto at = std::find(operands.begin(), operands.end(), o);
      if (at == operands.end()) at = operands.insert(at, o);
      return int(at - operands.begin());
    };
    std::vector<bool> done(p.operands.size(), false);
    for (size_t pass = 0; pass <= p.operands.size(); ++pass)  // index tensors before what they index
      for (size_t i = 0; i < p.operands.size(); ++i) {
        bool ready = !done[i];
        for (const Term& t : p.operands[i].map)
          for (const Part& part : t.parts) ready = ready && (part.kind != Part::Kind::load || done[size_t(part.which)]);
        if (!ready) continue;
        ir::Operand o{p.operands[i].buffer, {}};
        for (const Term& t : p.operands[i].map) o.map.push_back(moved(t));
        renamed[i] = place(o);
        done[i] = true;
      }

    ir::Body body;
    auto copy = [&](const ir::Body& from, auto&& load) {
      std::vector<int> at;
      for (const Scalar& s : from.entries()) {
        int args[3] = {0, 0, 0};
        switch (s.kind) {
          case Scalar::Kind::constant: at.push_back(body.constant(s.constant)); break;
          case Scalar::Kind::load: at.push_back(load(s.operand)); break;
          case Scalar::Kind::position: at.push_back(body.position()); break;
          case Scalar::Kind::cast: at.push_back(body.cast(s.dtype, at[size_t(s.args[0])])); break;
          case Scalar::Kind::apply:
            for (int i = 0; i < row(s.op).arity; ++i) args[i] = at[size_t(s.args[i])];
            at.push_back(body.apply(s.op, std::span(args, size_t(row(s.op).arity))));
            break;
        }
      }
      return at.back();
    };
    std::vector<DType> dtypes;
    for (const ir::Operand& o : p.operands) dtypes.push_back(out_.buffers[size_t(o.buffer)].dtype);
    DType kept = out_.buffers[size_t(p.target)].dtype;
    ir::EntryType made = ir::types_of(p.body, dtypes, {}).back();
    int result = copy(reader.body, [&](int operand) {
      if (size_t(operand) != k) return body.load(operand);
      int value = copy(p.body, [&](int o) { return body.load(renamed[size_t(o)]); });
      bool narrow = kept == DType::f16 || kept == DType::bf16;
      return made.weak || made.dtype != kept || narrow ? body.cast(kept, value) : value;
    });
    body.finish(result);
    reader.body = body;
    reader.operands = std::move(operands);
    drop_unread(reader);
  }

  static void drop_unread(Accumulation& a) {
    std::vector<bool> used(a.operands.size(), false);
    for (size_t i = 0; i < used.size(); ++i) used[i] = a.body.reads(int(i));
    auto mark = [&](const Term& t) {
      for (const Part& part : t.parts)
        if (part.kind == Part::Kind::load) used[size_t(part.which)] = true;
    };
    for (const Term& t : a.write) mark(t);
    for (size_t i = used.size(); i-- > 0;)
      if (used[i])
        for (const Term& t : a.operands[i].map) mark(t);
    std::vector<int> renamed(used.size(), -1);
    std::vector<ir::Operand> kept;
    for (size_t i = 0; i < used.size(); ++i)
      if (used[i]) renamed[i] = int(kept.size()), kept.push_back(a.operands[i]);
    auto rename = [&](Term& t) {
      Term out = Term::number(t.constant);
      for (const Part& part : t.parts) out.add(part.kind, part.kind == Part::Kind::load ? renamed[size_t(part.which)] : part.which, part.coefficient);
      t = out;
    };
    for (ir::Operand& o : kept)
      for (Term& t : o.map) rename(t);
    for (Term& t : a.write) rename(t);
    a.operands = std::move(kept);
    a.body = a.body.with_operands(renamed);
  }

  Program out_;
  std::map<BufferId, size_t> producer_;
  std::map<BufferId, int> readers_;
};

}  // namespace

Program inline_producers(const Program& program) { return remove_unused(Inliner(program).run()); }

Program remove_unused(const Program& program) {
  std::vector<bool> needed(program.buffers.size(), false);
  auto need = [&](BufferId id) {
    needed[size_t(id)] = true;
    if (auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(id)].kind)) needed[size_t(random->step)] = true;
  };
  for (BufferId id : program.observed) need(id);
  for (const auto& a : program.assignments) need(a.value);
  Program out = program;
  out.accumulations.clear();
  for (size_t k = program.accumulations.size(); k-- > 0;) {
    const Accumulation& a = program.accumulations[k];
    if (!needed[size_t(a.target)]) continue;
    for (const ir::Operand& o : a.operands) need(o.buffer);
    out.accumulations.push_back(a);
  }
  std::reverse(out.accumulations.begin(), out.accumulations.end());
  for (const auto& a : program.assignments) needed[size_t(a.state)] = true;

  std::vector<BufferId> renamed(program.buffers.size(), -1);
  out.buffers.clear();
  for (size_t b = 0; b < needed.size(); ++b)
    if (needed[b]) renamed[b] = BufferId(out.buffers.size()), out.buffers.push_back(program.buffers[b]);
  auto rename = [&](BufferId& id) { id = renamed[size_t(id)]; };
  for (ir::Buffer& b : out.buffers)
    if (auto* random = std::get_if<ir::RandomLeaf>(&b.kind)) rename(random->step);
  for (Accumulation& a : out.accumulations) {
    rename(a.target);
    for (ir::Operand& o : a.operands) rename(o.buffer);
  }
  for (auto& a : out.assignments) rename(a.state), rename(a.value);
  for (BufferId& id : out.observed) rename(id);
  return out;
}

Program merge_equal(const Program& program) {
  Program out = program;
  out.accumulations.clear();
  std::vector<BufferId> as(program.buffers.size());
  for (size_t b = 0; b < as.size(); ++b) as[b] = BufferId(b);
  std::map<size_t, std::vector<size_t>> by_hash;
  for (Accumulation a : program.accumulations) {
    for (ir::Operand& o : a.operands) o.buffer = as[size_t(o.buffer)];
    size_t h = ir::hash(program, a);
    bool merged = false;
    for (size_t k : by_hash[h]) {
      const Accumulation& b = out.accumulations[k];
      bool same_buffers = a.operands.size() == b.operands.size() && std::equal(a.operands.begin(), a.operands.end(), b.operands.begin());
      if (!same_buffers || !ir::equal(out, a, out, b)) continue;
      as[size_t(a.target)] = b.target;
      merged = true;
      break;
    }
    if (merged) continue;
    by_hash[h].push_back(out.accumulations.size());
    out.accumulations.push_back(std::move(a));
  }
  for (BufferId& id : out.observed) id = as[size_t(id)];
  for (auto& a : out.assignments) a.value = as[size_t(a.value)];
  for (ir::Buffer& b : out.buffers)
    if (auto* random = std::get_if<ir::RandomLeaf>(&b.kind)) random->step = as[size_t(random->step)];
  return remove_unused(out);
}

Program delay_updates(const Program& program) {
  const size_t n = program.accumulations.size();
  std::map<BufferId, size_t> producer;
  for (size_t k = 0; k < n; ++k) producer[program.accumulations[k].target] = k;
  std::vector<std::set<size_t>> after(n);  // k must come before each of after[k]
  std::vector<std::set<size_t>> before(n);
  auto edge = [&](size_t from, size_t to) { after[from].insert(to), before[to].insert(from); };
  for (size_t k = 0; k < n; ++k)
    for (const ir::Operand& o : program.accumulations[k].operands)
      if (auto at = producer.find(o.buffer); at != producer.end()) edge(at->second, k);
  auto reaches = [&](size_t from, size_t to) {  // along what is ordered so far
    std::vector<size_t> stack = {from};
    std::set<size_t> seen = {from};
    while (!stack.empty()) {
      size_t k = stack.back();
      stack.pop_back();
      if (k == to) return true;
      for (size_t next : after[k])
        if (seen.insert(next).second) stack.push_back(next);
    }
    return false;
  };
  for (const auto& a : program.assignments) {
    auto update = producer.find(a.value);
    if (update == producer.end()) continue;
    for (size_t k = 0; k < n; ++k) {
      const auto& operands = program.accumulations[k].operands;
      bool reads = std::any_of(operands.begin(), operands.end(), [&](const ir::Operand& o) { return o.buffer == a.state; });
      if (reads && k != update->second && !reaches(update->second, k)) edge(k, update->second);
    }
  }
  // From the end: what was only made for the step just placed comes directly before it, otherwise the latest of those ready.
  std::vector<size_t> readers(n, 0), waiting(n);
  for (const Accumulation& a : program.accumulations)
    for (const ir::Operand& o : a.operands)
      if (auto at = producer.find(o.buffer); at != producer.end()) ++readers[at->second];
  std::set<size_t> ready;
  for (size_t k = 0; k < n; ++k)
    if ((waiting[k] = after[k].size()) == 0) ready.insert(k);
  std::vector<size_t> reversed;
  while (!ready.empty()) {
    size_t k = *ready.rbegin();
    if (!reversed.empty())
      for (const ir::Operand& o : program.accumulations[reversed.back()].operands)
        if (auto at = producer.find(o.buffer); at != producer.end() && readers[at->second] == 1 && ready.count(at->second)) k = at->second;
    ready.erase(k);
    reversed.push_back(k);
    for (size_t previous : before[k])
      if (--waiting[previous] == 0) ready.insert(previous);
  }
  Program out = program;
  out.accumulations.clear();
  for (auto k = reversed.rbegin(); k != reversed.rend(); ++k) out.accumulations.push_back(program.accumulations[*k]);
  return out;
}

}  // namespace caravan::passes
