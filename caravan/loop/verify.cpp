#include <set>

#include "caravan/base/error.h"
#include "caravan/loop/walk.h"

namespace caravan::loop {

namespace {

class Verifier {
 public:
  Verifier(const Module& module, const Kernel& kernel) : module_(module), kernel_(kernel) {}
  void run() { check(kernel_.body, {}, {}); }

 private:
  void hold(bool condition, const std::string& what) const {
    if (!condition) throw InternalError("ill-formed kernel `" + kernel_.name + "`: " + what + ". This is a mistake in Caravan; please report it.\n" + to_string(module_, kernel_));
  }
  void buffer(ir::BufferId id) const { hold(id >= 0 && size_t(id) < module_.program.buffers.size(), "buffer " + std::to_string(id) + " does not exist"); }

  // Scopes are copied on the way in: what a block defines is gone after it.
  void check(const Block& block, std::set<Register> defined, std::set<Variable> open) {
    for (const Statement& s : block) {
      bool nested = std::holds_alternative<For>(s) || std::holds_alternative<If>(s);
      if (!nested) for_each_use(s, [&](Register r) { hold(defined.count(r) > 0, "register r" + std::to_string(r) + " is read before it is defined"); });
      auto define = [&](Register r) {
        hold(r >= 0 && size_t(r) < kernel_.registers.size(), "register r" + std::to_string(r) + " has no precision");
        hold(ever_.insert(r).second, "register r" + std::to_string(r) + " has two definitions");
        defined.insert(r);
      };
      if (auto* d = std::get_if<Define>(&s)) {
        if (auto* load = std::get_if<Load>(&d->value)) buffer(load->buffer);
        define(d->to);
      }
      if (auto* r = std::get_if<Reset>(&s)) define(r->to);
      if (auto* c = std::get_if<Combine>(&s)) hold(defined.count(c->to) > 0, "accumulator r" + std::to_string(c->to) + " was not reset");
      if (auto* c = std::get_if<CombineFirst>(&s)) hold(defined.count(c->best) && defined.count(c->position), "an argmax was not reset");
      if (auto* st = std::get_if<Store>(&s)) buffer(st->buffer);
      if (auto* f = std::get_if<For>(&s)) {
        hold(open.count(f->variable) == 0, "loop variable " + kernel_.variables[size_t(f->variable)] + " is used twice");
        std::set<Variable> inside = open;
        inside.insert(f->variable);
        check(f->body, defined, inside);
      }
      if (auto* i = std::get_if<If>(&s)) {
        for (const Term& t : i->where) term(t, defined, open);
        check(i->body, defined, open);
      }
      if (!nested) {
        Block one = {s};
        for_each_access(one, [&](const Access& a) { term(*a.offset, defined, open); });
      }
    }
  }
  void term(const Term& t, const std::set<Register>& defined, const std::set<Variable>& open) const {
    for (const Term::Part& part : t.parts) {
      if (part.kind == Term::Part::Kind::iterator) hold(open.count(part.which) > 0, "loop variable " + kernel_.variables[size_t(part.which)] + " is used outside its loop");
      if (part.kind == Term::Part::Kind::load) hold(defined.count(part.which) > 0, "an index reads register r" + std::to_string(part.which) + " before it is defined");
    }
  }

  const Module& module_;
  const Kernel& kernel_;
  std::set<Register> ever_;
};

}  // namespace

void verify(const Module& module) {
  for (const Kernel& kernel : module.kernels) Verifier(module, kernel).run();
}

}  // namespace caravan::loop
