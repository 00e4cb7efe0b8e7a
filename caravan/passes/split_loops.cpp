#include "caravan/passes/split_loops.h"

#include "caravan/base/error.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan::passes {

using namespace loop;

namespace {

constexpr int64_t kLanes = 8;

class Splitter {
 public:
  explicit Splitter(Kernel& kernel) : kernel_(kernel) {}
  void run(Block& block) {
    for (Statement& s : block) {
      if (auto* i = std::get_if<If>(&s)) run(i->body);
      auto* f = std::get_if<For>(&s);
      if (!f) continue;
      run(f->body);
      if (f->split) s = lanes(std::move(*f));
    }
  }

 private:
  Statement lanes(For loop) {
    const Accumulated sum = accumulated(loop.body);
    CARAVAN_CHECK(sum.to >= 0, "`" + kernel_.name + "` has a split loop without a sum");
    const Variable lane = add_variable(kernel_, kernel_.variables[size_t(loop.variable)] + "_lane");
    const Register partial = add_register(kernel_, kernel_.registers[size_t(sum.to)]);
    const int64_t rounds = loop.extent / kLanes, rest = loop.extent % kLanes;

    For out{lane, kLanes, LoopKind::serial, {}};
    out.body.push_back(Reset{partial, 0});
    auto body_at = [&](const Term& index) {
      Block body = copied(kernel_, loop.body);
      replace_sum(body, sum.to, partial);
      substitute(body, loop.variable, index);
      return body;
    };
    if (rounds > 0) {
      const Term index = Term::iterator(loop.variable, kLanes) + Term::iterator(lane);
      out.body.push_back(For{loop.variable, rounds, LoopKind::serial, body_at(index)});
    }
    if (rest > 0)
      out.body.push_back(If{{Term::number(rest - 1) - Term::iterator(lane)},
                            body_at(Term::number(rounds * kLanes) + Term::iterator(lane))});
    out.body.push_back(Combine{sum.to, sum.accumulator, partial});
    return out;
  }

  struct Accumulated {
    Register to = -1;
    Accumulator accumulator{};
  };
  static Accumulated accumulated(const Block& block) {
    for (const Statement& s : block) {
      if (auto* c = std::get_if<Combine>(&s)) return {c->to, c->accumulator};
      const Block* inside = nullptr;
      if (auto* i = std::get_if<If>(&s)) inside = &i->body;
      if (auto* f = std::get_if<For>(&s)) inside = &f->body;
      if (Accumulated found = inside ? accumulated(*inside) : Accumulated{}; found.to >= 0) return found;
    }
    return {};
  }
  static void replace_sum(Block& block, Register from, Register to) {
    rename(block, {[&](Register r) { return r == from ? to : r; }, nullptr, nullptr});
  }

  Kernel& kernel_;
};

}  // namespace

Module split_loops(const Module& module) {
  Module out = module;
  for (Kernel& kernel : out.kernels) Splitter(kernel).run(kernel.body);
  return out;
}

}  // namespace caravan::passes
