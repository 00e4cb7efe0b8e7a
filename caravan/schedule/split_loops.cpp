#include "caravan/schedule/split_loops.h"

#include <algorithm>
#include <optional>

#include "caravan/base/error.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan::schedule {

using namespace loop;

namespace {

class Splitter {
 public:
  explicit Splitter(Kernel& kernel) : kernel_(kernel) {}
  void run(Block& block) {
    rewrite(block, [&](Statement& s, Block& out) {
      if (auto* f = std::get_if<For>(&s); f && is_one_sum(*f)) return append(out, sum(std::move(*f)));
      if (Block* within = inside(s)) run(*within);
      out.push_back(std::move(s));
    });
  }

 private:
  struct Accumulated {
    Register to = -1;
    Accumulator accumulator{};
  };

  static bool is_ordered(const For& loop) { return loop.lanes > 0 || !loop.blocks.empty(); }
  static bool is_in_lanes(const For& loop) { return loop.lanes > 0; }

  // The loop itself or the first loop inside of it for which `is` holds; null if there is none.
  static const For* first(const For& loop, bool (*is)(const For&)) {
    return is(loop) ? &loop : find_of<For>(loop.body, is);
  }

  // Does all of the loop belong to one sum with a stated order? Not if the accumulator is reset inside of the loop.
  static bool is_one_sum(const For& loop) {
    const For* ordered = first(loop, is_ordered);
    if (!ordered) return false;
    bool own = false;
    const Register total = accumulated(ordered->body).to;
    for_each_of<Reset>(loop.body, [&](const Reset& r) { own = own || r.to == total; });
    return !own;
  }

  // The loop, rewritten in the order of its sum. The loop over lanes goes around all of it if the number of lanes
  // divides the extent of the loop that has the lanes. Otherwise it goes around that loop only: the remainder is
  // guarded by a condition on the lane, and a loop whose iterations run in lockstep must not have such a condition in
  // the loops between.
  Block sum(For loop) {
    const For* along = first(loop, is_in_lanes);
    const Accumulated total = accumulated(loop.body);
    CARAVAN_CHECK(total.to >= 0, "`" + kernel_.name + "` has the order of a sum on a loop without one");
    if (!along || (along != &loop && along->extent % along->lanes != 0)) return cut(std::move(loop), total);
    lane_ = add_variable(kernel_, kernel_.variables[size_t(along->variable)] + "_lane");
    For out{*lane_, along->lanes, LoopKind::serial, {}};
    out.body = apart(total, [&](Accumulated lane_total) {
      replace_sum(loop.body, total.to, lane_total.to);
      return cut(std::move(loop), lane_total);
    });
    lane_.reset();
    Block block;
    block.push_back(std::move(out));
    return block;
  }

  // Sums the statements of `make` in a new register, and adds that to the total at the end.
  template <class Make>
  Block apart(Accumulated total, Make make) {
    const Accumulated own{add_register(kernel_, kernel_.registers[size_t(total.to)]), total.accumulator};
    Block out;
    out.push_back(Reset{own.to, row(total.accumulator).neutral});
    append(out, make(own));
    out.push_back(Combine{total.to, total.accumulator, own.to});
    return out;
  }

  // Cuts the loop, and the loops inside of it, into their blocks. The loop that has lanes becomes one over the terms of
  // a single lane.
  Block cut(For loop, Accumulated total) {
    loop.body = cut(std::move(loop.body), total);
    if (loop.lanes > 0) return cut_lane(loop, total);
    if (!loop.blocks.empty()) return range({loop, total.to, 1}, Term(), loop.extent, loop.blocks, total);
    Block out;
    out.push_back(std::move(loop));
    return out;
  }
  Block cut(Block block, Accumulated total) {
    rewrite(block, [&](Statement& s, Block& out) {
      match(
          s, [&](For& f) { append(out, f.lanes > 0 && !lane_ ? sum(std::move(f)) : cut(std::move(f), total)); },
          [&](If& i) {
            out.push_back(If{std::move(i.where), cut(std::move(i.body), total)});
          },
          [&](Simple auto& simple) { out.push_back(std::move(simple)); });
    });
    return block;
  }
  Block cut_lane(const For& loop, Accumulated total) {
    const Terms terms{loop, total.to, loop.lanes};
    const int64_t rounds = loop.extent / loop.lanes, rest = loop.extent % loop.lanes;
    std::vector<int64_t> blocks = loop.blocks;
    for (int64_t& size : blocks) size /= loop.lanes;
    Block out = range(terms, Term::iterator(*lane_), rounds, blocks, total);
    if (rest > 0) {
      Block last = terms_at(terms, Term::number(rounds * loop.lanes) + Term::iterator(*lane_), total);
      out.push_back(If{{Term::number(rest - 1) - Term::iterator(*lane_)}, std::move(last)});
    }
    return out;
  }

  // The terms of a sum: the body of a loop, which adds to the register `to`. Consecutive terms of a lane have indices
  // `stride` apart.
  struct Terms {
    const For& loop;
    Register to;
    int64_t stride;
  };
  // Sums `count` terms from index `first` on, in blocks of these sizes.
  Block range(const Terms& terms, const Term& first, int64_t count, std::vector<int64_t> blocks, Accumulated total) {
    while (!blocks.empty() && count <= blocks.back()) blocks.pop_back();
    Block out;
    if (blocks.empty()) {
      if (count == 1) return terms_at(terms, first, total);
      auto term_at = [&](const Term& at) { return terms_at(terms, first + at * terms.stride, total); };
      if (count > 0) out.push_back(over(terms.loop.variable, count, term_at));
      return out;
    }
    const int64_t size = blocks.back(), whole = count / size, rest = count % size;
    blocks.pop_back();
    auto block_at = [&](const Term& index, int64_t length) {
      const Term begin = first + index * (size * terms.stride);
      return apart(total, [&](Accumulated own) { return range(terms, begin, length, blocks, own); });
    };
    const std::string level = blocks.empty() ? "" : std::to_string(blocks.size() + 1);  // "2" for blocks of blocks
    const Variable number = add_variable(kernel_, kernel_.variables[size_t(terms.loop.variable)] + "_block" + level);
    out.push_back(over(number, whole, [&](const Term& index) { return block_at(index, size); }));
    if (rest > 0) append(out, block_at(Term::number(whole), rest));
    return out;
  }
  template <class Make>
  static Statement over(Variable variable, int64_t extent, Make make) {
    return For{variable, extent, LoopKind::serial, make(Term::iterator(variable))};
  }
  Block terms_at(const Terms& terms, const Term& index, Accumulated total) {
    Block body = copied(kernel_, terms.loop.body);
    replace_sum(body, terms.to, total.to);
    substitute(body, terms.loop.variable, index);
    return body;
  }

  static Accumulated accumulated(const Block& block) {
    const Combine* first = find_of<Combine>(block, [](const Combine&) { return true; });
    return first ? Accumulated{first->to, first->accumulator} : Accumulated{};
  }
  static void replace_sum(Block& block, Register from, Register to) {
    rename(block, {[&](Register r) { return r == from ? to : r; }, nullptr, nullptr});
  }

  Kernel& kernel_;
  std::optional<Variable> lane_;  // variable of the enclosing loop over lanes, if there is one
};

}  // namespace

Module split_loops(const Module& module) {
  return with_changed_kernels(module, [](Kernel& kernel) { Splitter(kernel).run(statements(kernel)); });
}

}  // namespace caravan::schedule
