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
      const For* split = split_of_one_sum(*f);
      if (!split) {
        run(f->body);
        continue;
      }
      const Variable lane = add_variable(kernel_, kernel_.variables[size_t(split->variable)] + "_lane");
      const Accumulated sum = accumulated(split->body);
      s = lanes(std::move(*f), lane, sum);
    }
  }

 private:
  struct Accumulated {
    Register to = -1;
    Accumulator accumulator{};
  };

  // The split loop in this one, if all of this one is one sum and lanes can go around it: what is left over of the
  // split loop would be a condition on the lane in the loops between.
  static const For* split_of_one_sum(const For& loop) {
    if (loop.split) return &loop;
    const For* split = find_split(loop.body);
    if (!split || split->extent % kLanes != 0) return nullptr;
    bool own = false;  // is the total of a loop inside?
    const Register total = accumulated(split->body).to;
    for (const Statement& s : loop.body) for_each_reset(s, [&](Register r) { own = own || r == total; });
    return own ? nullptr : split;
  }
  static const For* find_split(const Block& block) {
    for (const Statement& s : block) {
      if (auto* i = std::get_if<If>(&s))
        if (const For* found = find_split(i->body)) return found;
      auto* f = std::get_if<For>(&s);
      if (!f) continue;
      if (f->split) return f;
      if (const For* found = find_split(f->body)) return found;
    }
    return nullptr;
  }
  template <class Visit>
  static void for_each_reset(const Statement& s, Visit visit) {
    if (auto* r = std::get_if<Reset>(&s)) visit(r->to);
    if (auto* i = std::get_if<If>(&s))
      for (const Statement& inside : i->body) for_each_reset(inside, visit);
    if (auto* f = std::get_if<For>(&s))
      for (const Statement& inside : f->body) for_each_reset(inside, visit);
  }

  Statement lanes(For loop, Variable lane, Accumulated sum) {
    CARAVAN_CHECK(sum.to >= 0, "`" + kernel_.name + "` has a split loop without a sum");
    const Register partial = add_register(kernel_, kernel_.registers[size_t(sum.to)]);
    For out{lane, kLanes, LoopKind::serial, {}};
    out.body.push_back(Reset{partial, 0});
    out.body.push_back(std::move(loop));
    replace_sum(out.body, sum.to, partial);
    in_lanes(out.body, lane);
    out.body.push_back(Combine{sum.to, sum.accumulator, partial});
    return out;
  }
  // The split loop becomes a loop over rounds and what is left over.
  void in_lanes(Block& block, Variable lane) {
    Block out;
    for (Statement& s : block) {
      if (auto* i = std::get_if<If>(&s)) in_lanes(i->body, lane);
      auto* f = std::get_if<For>(&s);
      if (f && !f->split) in_lanes(f->body, lane);
      if (!f || !f->split) {
        out.push_back(std::move(s));
        continue;
      }
      const int64_t rounds = f->extent / kLanes, rest = f->extent % kLanes;
      auto body_at = [&](const Term& index) {
        Block body = copied(kernel_, f->body);
        substitute(body, f->variable, index);
        return body;
      };
      if (rounds > 0) {
        const Term index = Term::iterator(f->variable, kLanes) + Term::iterator(lane);
        out.push_back(For{f->variable, rounds, LoopKind::serial, body_at(index)});
      }
      if (rest > 0)
        out.push_back(If{{Term::number(rest - 1) - Term::iterator(lane)},
                         body_at(Term::number(rounds * kLanes) + Term::iterator(lane))});
    }
    block = std::move(out);
  }

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
