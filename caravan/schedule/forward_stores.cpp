#include "caravan/schedule/forward_stores.h"

#include <map>
#include <optional>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

class Forwarder {
 public:
  Forwarder(const Module& module, Kernel& kernel)
      : module_(module), kernel_(kernel), alias_(kernel.registers.size(), -1) {}
  void run() {
    forward(statements(kernel_), {});
    if (aliases_)
      rename(statements(kernel_),
             {[&](Register r) { return alias_[size_t(r)] < 0 ? r : alias_[size_t(r)]; }, nullptr, nullptr});
  }

 private:
  struct Stored {
    Term offset;
    Register value;
    std::optional<DType> rounded{};  // to which the store rounds the value
  };
  using Known = std::map<BufferId, Stored>;  // by buffer: offset and value of its last store

  Register now(Register r) const { return alias_[size_t(r)] < 0 ? r : alias_[size_t(r)]; }
  Term now(Term term) const {
    if (!aliases_ || !term.has_load()) return term;
    Term out = Term::number(term.constant);
    for (const Term::Part& part : term.parts)
      out.add(part.kind, part.kind == Term::Part::Kind::load ? now(part.which) : part.which, part.coefficient);
    return out;
  }

  void forward(Block& block, Known known) {
    rewrite(block, [&](Statement& s, Block& out) {
      if (auto* define = std::get_if<Define>(&s); define && forwarded(*define, known)) return;
      match(
          s,
          [&](Define& d) {
            if (auto* cast = std::get_if<Cast>(&d.value)) rounded_[d.to] = cast->to;
          },
          [&](For& f) {
            forget_changed(known, f.body);
            forward(f.body, known);
          },
          [&](If& i) {
            forward(i.body, known);
            forget_changed(known, i.body);
          },
          [&](Store& store) {
            known.erase(store.buffer);
            const Register value = now(store.value);
            const DType from = kernel_.registers[size_t(value)], to = module_.buffers[size_t(store.buffer)].dtype;
            const auto rounded = rounded_.find(value);
            if (from == to || (rounded != rounded_.end() && rounded->second == to))
              known[store.buffer] = {now(store.offset), value};
            else if (is_float(from) && is_float(to))
              known[store.buffer] = {now(store.offset), value, to};
          },
          [&](OneOf<Reset, Combine, CombineFirst, StoreCombine, StoreFirst, Move, Barrier, Prefetch> auto&) {
            forget_changed(known, s);
          });
      out.push_back(std::move(s));
    });
  }
  // Does the definition load an element whose value a register has? That register then takes its place. If the store
  // rounded the value, the definition stays, and rounds it too.
  bool forwarded(Define& define, const Known& known) {
    auto* load = std::get_if<Load>(&define.value);
    const auto at = load ? known.find(load->buffer) : known.end();
    if (at == known.end() || at->second.offset != now(load->offset)) return false;
    if (at->second.rounded) {
      define.value = Cast{at->second.value, *at->second.rounded};
      return false;
    }
    alias_[size_t(define.to)] = at->second.value;
    return aliases_ = true;
  }
  // Forgets the buffers that the statement stores to, and those whose value is in a register that it changes.
  static void forget_changed(Known& known, const Statement& s) {
    if (known.empty()) return;
    for_each_change(s, [&](Register r) { std::erase_if(known, [&](const auto& k) { return k.second.value == r; }); });
    for_each_access(s, [&](const loop::Access& a) {
      if (a.write) known.erase(a.buffer);
    });
  }
  static void forget_changed(Known& known, const Block& block) {
    for (const Statement& s : block) forget_changed(known, s);
  }

  const Module& module_;
  Kernel& kernel_;
  std::vector<Register> alias_;
  std::map<Register, DType> rounded_;  // casts
  bool aliases_ = false;
};

// Liveness by a worklist. The roots are the buffers that are observed, assigned or leaves. A needed buffer makes the
// registers needed that are stored to it; a needed register makes its operands needed, and the buffers that it is
// loaded from.
class Liveness {
 public:
  explicit Liveness(const Module& module) : buffers_(module.buffers.size()) {
    for (size_t k = 0; k < module.kernels.size(); ++k) {
      registers_.emplace_back(module.kernels[k].registers.size());
      collect(int(k), statements(module.kernels[k]), {});
    }
    for (const Kernel& kernel : module.kernels)
      if (!has_statements(kernel)) for_each_access(kernel, [&](const loop::Access& a) { need_buffer(a.buffer); });
    for (BufferId id : module.observed) need_buffer(id);
    for (const auto& a : module.assignments) need_buffer(a.value);
    for (size_t b = 0; b < buffers_.size(); ++b)
      if (!std::holds_alternative<ir::Computed>(module.buffers[b].kind)) need_buffer(BufferId(b));
    while (!open_.empty()) {
      Needs needs = std::move(open_.back());
      open_.pop_back();
      for (auto [kernel, r] : needs.registers) need_register(kernel, r);
      for (BufferId id : needs.buffers) need_buffer(id);
    }
  }
  bool needs(BufferId id) const { return buffers_[size_t(id)].needed; }
  bool needs(size_t kernel, Register r) const { return registers_[kernel][size_t(r)].needed; }

 private:
  struct Needs {
    std::vector<std::pair<int, Register>> registers;
    std::vector<BufferId> buffers;
  };
  struct Item {
    Needs needs;
    bool needed = false;
  };

  // `guards` are the registers in the conditions around the block.
  void collect(int kernel, const Block& block, const std::vector<Register>& guards) {
    for (const Statement& s : block) {
      auto of = [&](Register r) -> Item& { return registers_[size_t(kernel)][size_t(r)]; };
      auto serve = [&](Item& item) {  // what the statement and the guards read is needed if the item is
        auto add = [&](Register r) { item.needs.registers.push_back({kernel, r}); };
        for (Register r : guards) add(r);
        for_each_use(s, add);
      };
      match(
          s, [&](const For& f) { collect(kernel, f.body, guards); },
          [&](const If& i) {
            std::vector<Register> within = guards;
            for_each_use(If{i.where, {}}, [&](Register r) { within.push_back(r); });
            collect(kernel, i.body, within);
          },
          [&](const Define& d) {
            serve(of(d.to));
            if (auto* load = std::get_if<Load>(&d.value)) of(d.to).needs.buffers.push_back(load->buffer);
          },
          [](const OneOf<Reset, Move, Barrier, Prefetch> auto&) {}, [&](const Combine& c) { serve(of(c.to)); },
          [&](const CombineFirst& c) {  // position and best value need each other
            serve(of(c.position)), serve(of(c.best));
            of(c.position).needs.registers.push_back({kernel, c.best});
            of(c.best).needs.registers.push_back({kernel, c.position});
          },
          [&](const OneOf<Store, StoreCombine> auto& store) { serve(buffers_[size_t(store.buffer)]); },
          [&](const StoreFirst& first) {
            serve(buffers_[size_t(first.positions)]), serve(buffers_[size_t(first.best)]);
            buffers_[size_t(first.positions)].needs.buffers.push_back(first.best);
            buffers_[size_t(first.best)].needs.buffers.push_back(first.positions);
          });
    }
  }
  void need(Item& item) {
    if (item.needed) return;
    item.needed = true;
    open_.push_back(std::move(item.needs));
  }
  void need_register(int kernel, Register r) { need(registers_[size_t(kernel)][size_t(r)]); }
  void need_buffer(BufferId id) { need(buffers_[size_t(id)]); }

  std::vector<Item> buffers_;
  std::vector<std::vector<Item>> registers_;  // by kernel
  std::vector<Needs> open_;
};

void sweep(Block& block, size_t kernel, const Liveness& live) {
  std::erase_if(block, [&](Statement& s) {
    return match(
        s, [&](OneOf<Define, Reset, Combine> auto& made) { return !live.needs(kernel, made.to); },
        [&](CombineFirst& c) { return !live.needs(kernel, c.position); },
        [&](OneOf<Store, StoreCombine> auto& store) { return !live.needs(store.buffer); },
        [&](StoreFirst& store) { return !live.needs(store.positions); },
        [](OneOf<Move, Barrier, Prefetch> auto&) { return false; },
        [&](OneOf<For, If> auto& around) { return sweep(around.body, kernel, live), around.body.empty(); });
  });
}

}  // namespace

Module forward_stores(const Module& module) {
  Module out = module;
  for (Kernel& kernel : out.kernels)
    if (has_statements(kernel)) Forwarder(out, kernel).run();
  const Liveness live(out);
  for (size_t k = 0; k < out.kernels.size(); ++k)
    if (has_statements(out.kernels[k])) sweep(statements(out.kernels[k]), k, live);
  std::erase_if(out.kernels, [](const Kernel& kernel) { return has_statements(kernel) && statements(kernel).empty(); });
  return out;
}

}  // namespace caravan::schedule
