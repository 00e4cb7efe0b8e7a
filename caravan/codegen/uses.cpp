#include "caravan/codegen/uses.h"

#include <algorithm>
#include <map>
#include <utility>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/spelling.h"
#include "caravan/ops/table.h"

namespace caravan::codegen {

using namespace loop;
using Part = Term::Part;

namespace {

class Counter {
 public:
  Counter(const Module& module, const Kernel& kernel)
      : module_(module), uses_(kernel.registers.size(), 0), loops_(kernel.registers.size(), 0) {
    for_each_access(kernel, [&](const Access& a) {
      if (a.write) out_.written.insert(a.buffer);
      if (attention(kernel)) touch(a.buffer);
    });
    out_.exchanged = exchanged_by_lanes(kernel);
    for_each_of<Move>(statements(kernel), [&](const Move& m) { pieces_[m.local] = &m; });
    count(statements(kernel));
    for (int uses : uses_) out_.is_variable.push_back(uses > 1);
  }
  Uses take() { return std::move(out_); }

 private:
  void use(Register r) { uses_[size_t(r)] += loops_[size_t(r)] == loop_ ? 1 : 2; }
  void keep(Register r) { uses_[size_t(r)] += 2; }
  void use(const Term& term) {
    for (const Part& part : term.parts) {
      if (part.kind == Part::Kind::symbol) add_once(out_.symbols, part.which);
      if (part.kind == Part::Kind::load) keep(part.which);
    }
  }
  template <class T>
  static void add_once(std::vector<T>& list, const T& item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
  }
  // The buffer of a piece, and where it begins there: what is done with an element of a piece counts as done with the
  // element of the buffer, so that parameters and variables do not depend on what is moved together.
  const Move* piece(const Memory& memory) const {
    const auto at = memory.is_local() ? pieces_.find(memory.local()) : pieces_.end();
    return at == pieces_.end() ? nullptr : at->second;
  }
  void touch(const Memory& memory, const Term& offset) {
    const Move* move = piece(memory);
    touch(move ? move->buffer : memory);
    use(move ? move->offset : offset);
  }
  void touch(const Memory& memory) {
    if (!memory.is_local()) add_once(out_.buffers, ir::BufferId(memory));
  }
  // May the memory be overwritten between a load and the use of its value? For a buffer: the kernel writes it. For a
  // local: the current block writes it; other blocks write it only before or after.
  bool is_written(const Memory& memory) const {
    if (const Move* move = piece(memory)) return is_written(move->buffer);
    return memory.is_local() ? locals_.count(memory.local()) > 0 : out_.written.count(memory) > 0;
  }

  void count(const Block& block) {
    std::set<int> written;
    for (const Statement& s : block)
      for_each_local(s, [&](int local, bool write) {
        if (write) written.insert(local);
      });
    std::swap(written, locals_);
    for (const Statement& s : block) std::visit([&](const auto& x) { count(x); }, s);
    std::swap(written, locals_);
  }
  void count(const Define& d) {
    loops_[size_t(d.to)] = loop_;
    if (auto* load = std::get_if<Load>(&d.value); load && is_written(load->buffer)) keep(d.to);
    if (std::holds_alternative<AcrossLanes>(d.value)) keep(d.to);  // all lanes take part, once
    if (auto* constant = std::get_if<Constant>(&d.value); constant && constant->value == 0) zeros_.insert(d.to);
    std::visit([&](const auto& v) { count_value(v); }, d.value);
  }
  void count_value(const Constant&) {}
  void count_value(const Load& v) { touch(v.buffer, v.offset); }
  void count_value(const IndexValue& v) { use(v.term); }
  void count_value(const RandomValue& v) {
    add_once(out_.streams, random_leaf(module_, v.leaf).stream);
    use(v.element), use(v.step);
  }
  void count_value(const Apply& v) {
    const Spelling& written = spelling(v.op, !is_float(v.compute));
    const bool beside_zero = is_float(v.compute) && (v.op == Op::add || v.op == Op::sub) &&
                             (zeros_.count(v.args[0]) || zeros_.count(v.args[1]));
    for (int k = 0; k < row(v.op).arity; ++k)
      for (int n = 0; n < written.mentions[k]; ++n)
        beside_zero || written.conditional ? keep(v.args[k]) : use(v.args[k]);
  }
  void count_value(const Cast& v) { use(v.arg); }
  void count_value(const Interleave& v) { use(v.first), use(v.second); }
  void count_value(const AcrossLanes& v) { use(v.arg); }
  void count(const Reset&) {}
  void count(const Combine& c) {
    use(c.value);
    if (c.factor >= 0) use(c.factor);
  }
  void count(const CombineFirst& c) { keep(c.value), use(c.term); }
  void count(const Store& s) { touch(s.buffer, s.offset), use(s.value); }
  void count(const StoreCombine& s) {
    touch(s.buffer, s.offset), use(s.value);
    if (s.factor >= 0) use(s.factor);
  }
  void count(const StoreFirst& s) { touch(s.positions), touch(s.best), use(s.offset), keep(s.value), use(s.term); }
  void count(const Move&) {}  // counted where its elements are used
  void count(const Barrier&) {}
  void count(const Prefetch& s) { use(s.offset); }  // what is loaded is counted there
  void count(const For& f) {
    const int outside = std::exchange(loop_, ++last_loop_);
    count(f.body);
    loop_ = outside;
  }
  void count(const If& i) {
    for (const Term& t : i.where) use(t);
    count(i.body);
  }

  const Module& module_;
  std::vector<int> uses_, loops_;  // by register: how often it is used, and the number of the loop that defines it
  int loop_ = 0, last_loop_ = 0;
  std::set<int> locals_;               // locals that the current block writes
  std::map<int, const Move*> pieces_;  // by local
  std::set<Register> zeros_;
  Uses out_;
};

}  // namespace

Uses uses_of(const Module& module, const Kernel& kernel) { return Counter(module, kernel).take(); }

const ir::RandomLeaf& random_leaf(const Module& module, ir::BufferId id) {
  return std::get<ir::RandomLeaf>(module.buffers[size_t(id)].kind);
}

}  // namespace caravan::codegen
