#include "caravan/schedule/forward_stores.h"

#include <map>

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
    std::vector<Statement> kept;
    for (Statement& s : block) {
      bool drop = false;
      if (auto* store = std::get_if<Store>(&s)) {
        known.erase(store->buffer);
        const Register value = now(store->value);
        if (kernel_.registers[size_t(value)] == module_.buffers[size_t(store->buffer)].dtype)
          known[store->buffer] = {now(store->offset), value};
      } else if (auto* define = std::get_if<Define>(&s)) {
        if (auto* load = std::get_if<Load>(&define->value))
          if (auto at = known.find(load->buffer); at != known.end() && at->second.offset == now(load->offset)) {
            alias_[size_t(define->to)] = at->second.value;
            aliases_ = drop = true;
          }
      } else if (auto* f = std::get_if<For>(&s)) {
        forget_changed(known, f->body);
        forward(f->body, known);
      } else if (auto* i = std::get_if<If>(&s)) {
        forward(i->body, known);
        forget_changed(known, i->body);
      } else if (auto* c = std::get_if<StoreCombine>(&s)) {
        known.erase(c->buffer);
      } else if (auto* c = std::get_if<StoreFirst>(&s)) {
        known.erase(c->positions), known.erase(c->best);
      } else if (auto* c = std::get_if<Combine>(&s)) {
        forget_value(known, c->to);
      } else if (auto* c = std::get_if<CombineFirst>(&s)) {
        forget_value(known, c->best), forget_value(known, c->position);
      }
      if (!drop) kept.push_back(std::move(s));
    }
    block = std::move(kept);
  }
  static void forget_value(Known& known, Register changed) {
    std::erase_if(known, [&](const auto& k) { return k.second.value == changed; });
  }
  // Forgets the buffers to which the block stores, and the values that it accumulates into.
  static void forget_changed(Known& known, const Block& block) {
    if (known.empty()) return;
    for (const Statement& s : block) {
      if (const Block* within = inside(s)) forget_changed(known, *within);
      if (auto* c = std::get_if<Combine>(&s)) forget_value(known, c->to);
      if (auto* c = std::get_if<CombineFirst>(&s)) forget_value(known, c->best), forget_value(known, c->position);
    }
    for_each_access(block, [&](const loop::Access& a) {
      if (a.write) known.erase(a.buffer);
    });
  }

  const Module& module_;
  Kernel& kernel_;
  std::vector<Register> alias_;
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
      if (auto* f = std::get_if<For>(&s)) {
        collect(kernel, f->body, guards);
        continue;
      }
      if (auto* i = std::get_if<If>(&s)) {
        std::vector<Register> inside = guards;
        for (const Term& t : i->where)
          for (const Term::Part& part : t.parts)
            if (part.kind == Term::Part::Kind::load) inside.push_back(part.which);
        collect(kernel, i->body, inside);
        continue;
      }
      std::vector<Register> uses = guards;
      for_each_use(s, [&](Register r) { uses.push_back(r); });
      auto serve = [&](Item& item) {
        for (Register r : uses) item.needs.registers.push_back({kernel, r});
      };
      auto of = [&](Register r) -> Item& { return registers_[size_t(kernel)][size_t(r)]; };
      if (auto* d = std::get_if<Define>(&s)) {
        serve(of(d->to));
        if (auto* load = std::get_if<Load>(&d->value)) of(d->to).needs.buffers.push_back(load->buffer);
      } else if (auto* c = std::get_if<Combine>(&s)) {
        serve(of(c->to));
      } else if (auto* c = std::get_if<CombineFirst>(&s)) {  // position and best value need each other
        serve(of(c->position)), serve(of(c->best));
        of(c->position).needs.registers.push_back({kernel, c->best});
        of(c->best).needs.registers.push_back({kernel, c->position});
      } else if (auto* store = std::get_if<Store>(&s)) {
        serve(buffers_[size_t(store->buffer)]);
      } else if (auto* store = std::get_if<StoreCombine>(&s)) {
        serve(buffers_[size_t(store->buffer)]);
      } else if (auto* first = std::get_if<StoreFirst>(&s)) {
        serve(buffers_[size_t(first->positions)]), serve(buffers_[size_t(first->best)]);
        buffers_[size_t(first->positions)].needs.buffers.push_back(first->best);
        buffers_[size_t(first->best)].needs.buffers.push_back(first->positions);
      }
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
    if (auto* d = std::get_if<Define>(&s)) return !live.needs(kernel, d->to);
    if (auto* r = std::get_if<Reset>(&s)) return !live.needs(kernel, r->to);
    if (auto* c = std::get_if<Combine>(&s)) return !live.needs(kernel, c->to);
    if (auto* c = std::get_if<CombineFirst>(&s)) return !live.needs(kernel, c->position);
    if (auto* store = std::get_if<Store>(&s)) return !live.needs(store->buffer);
    if (auto* store = std::get_if<StoreCombine>(&s)) return !live.needs(store->buffer);
    if (auto* store = std::get_if<StoreFirst>(&s)) return !live.needs(store->positions);
    Block& within = *inside(s);
    return sweep(within, kernel, live), within.empty();
  });
}

}  // namespace

Module forward_stores(const Module& module) {
  Module out = module;
  for (Kernel& kernel : out.kernels) Forwarder(out, kernel).run();
  const Liveness live(out);
  for (size_t k = 0; k < out.kernels.size(); ++k) sweep(statements(out.kernels[k]), k, live);
  std::erase_if(out.kernels, [](const Kernel& kernel) { return !library_call(kernel) && statements(kernel).empty(); });
  return out;
}

}  // namespace caravan::schedule
