#include "caravan/schedule/expand_lanes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan::schedule {

using namespace loop;
using Part = Term::Part;

namespace {

struct Lane {  // a vector or unrolled loop, whose iterations run in lockstep
  Variable variable;
  int64_t extent;
  LoopKind kind;
};
using Lanes = std::vector<Lane>;

bool is_loop(const Statement& s) {
  return match(
      s, [](const For&) { return true; }, [](const If& i) { return has_loop(i.body); },
      [](const Simple auto&) { return false; });
}
bool in_lanes(const For& loop, const Lanes& around) {
  const bool side_by_side = loop.kind == LoopKind::vector || loop.kind == LoopKind::unrolled;
  return side_by_side && (!around.empty() || has_loop(loop.body));
}

// --- which registers are used by another run than the one that defines them ---

class Survey {
 public:
  struct Made {
    int run = 0;
    Lanes lanes;
    std::optional<double> constant{};
  };
  explicit Survey(const Block& block) { walk(block); }

  std::map<Register, Made> made;          // every register that is defined or reset
  std::set<Register> kept;                // registers that become locals
  std::map<Register, std::string> names;  // accumulators: how their locals are called

 private:
  void walk(const Block& block) {
    for (const Statement& s : block) {
      if (!is_loop(s)) {
        look(s);
        continue;
      }
      ++run_;
      auto* f = std::get_if<For>(&s);
      const bool lanes = f && in_lanes(*f, lanes_);
      if (lanes) lanes_.push_back({f->variable, f->extent, f->kind});
      walk(*inside(s));
      if (lanes) lanes_.pop_back();
      ++run_;
    }
  }
  void look(const Statement& s) {
    if (const Block* within = inside(s))
      for (const Statement& inner : *within) look(inner);
    auto used = [&](Register r) {
      auto at = made.find(r);
      if (at != made.end() && at->second.run != run_ && !at->second.lanes.empty() && !at->second.constant)
        kept.insert(r);
    };
    for_each_use(s, used);
    match(
        s,
        [&](const Define& d) {
          made[d.to] = {run_, lanes_};
          if (auto* constant = std::get_if<Constant>(&d.value)) made[d.to].constant = constant->value;
        },
        [&](const Reset& r) {
          made[r.to] = {run_, lanes_};
        },
        [&](const Combine& c) { used(c.to), names[c.to] = total_name(c.accumulator); },
        [&](const CombineFirst& c) {
          used(c.best), used(c.position);
          names[c.best] = "best", names[c.position] = "position";
        },
        [](const OneOf<Store, StoreCombine, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) {});
  }

  Lanes lanes_;
  int run_ = 0;
};

// --- the rewriting of one kernel ---

class Expander {
 public:
  Expander(const Module& module, Kernel& kernel, const Target& target)
      : module_(module), kernel_(kernel), target_(target), survey_(statements(kernel)) {
    for (Register r : survey_.kept) {
      int64_t elements = 1;
      for (const Lane& lane : survey_.made.at(r).lanes) elements *= lane.extent;
      auto name = survey_.names.find(r);
      locals_[r] = int(kernel_.locals.size());
      add_local(kernel_,
                {name == survey_.names.end() ? "value" : name->second, kernel_.registers[size_t(r)].dtype, elements});
    }
    kernel_.body = outside(statements(kernel_));
  }

 private:
  bool has_vectors() const { return target_.most_lanes(DType::f32) > 1; }

  Block outside(const Block& block) {
    Block out;
    for (const Statement& s : block) {
      if (auto* f = std::get_if<For>(&s); f && in_lanes(*f, lanes_)) {
        enter(*f, out);
        continue;
      }
      out.push_back(s);
      if (Block* within = inside(out.back())) *within = outside(*within);
    }
    return out;
  }
  void enter(const For& loop, Block& out) {
    lanes_.push_back({loop.variable, loop.extent, loop.kind});
    const int around = std::exchange(inner_loops_, 0);
    expand(loop.body, out);
    inner_loops_ = around;
    lanes_.pop_back();
  }
  // A block inside of lanes: runs, with inner loops between them.
  void expand(const Block& block, Block& out) {
    Block run;
    auto flush = [&] {
      if (!run.empty()) append(out, expanded_run(run));
      run.clear();
    };
    for (const Statement& s : block) {
      if (!is_loop(s)) {
        run.push_back(s);
        continue;
      }
      flush();
      auto* f = std::get_if<For>(&s);
      if (f && in_lanes(*f, lanes_)) {
        enter(*f, out);
        continue;
      }
      Block body;
      inner_loops_ += f != nullptr;
      expand(*inside(s), body);
      inner_loops_ -= f != nullptr;
      out.push_back(s);
      *inside(out.back()) = std::move(body);
      // This loop now contains a loop over the lanes, which stays a loop or is computed in vectors. So GCC's bug
      // (keep_loops.h) no longer applies to it.
      if (auto* copy = std::get_if<For>(&out.back()); copy && has_vectors() && copy->unroll == Unroll::never)
        copy->unroll = Unroll::free;
    }
    flush();
  }

  // The run within loops over all lanes.
  Block expanded_run(const Block& run) {
    const bool one_by_one = adds_lanes(run);
    Lanes lanes = lanes_;
    own_.clear();
    for_each_of<Define>(run, [&](const Define& d) { own_.insert(d.to); });
    Block body = mapped(run, {});
    const int width = vector_width(body);
    if (width > 1) {
      Lane& lane = lanes.back();
      const int64_t count = lane.extent / width;
      if (count == 1) {
        substitute(body, lane.variable, Term{});
        lanes.pop_back();
      } else {
        const Variable v = add_variable(kernel_, kernel_.variables[size_t(lane.variable)] + "_vector");
        substitute(body, lane.variable, Term::iterator(v, width));
        lane = {v, count, LoopKind::unrolled};
      }
    }
    for (size_t k = lanes.size(); k-- > 0;) {
      For loop{lanes[k].variable, lanes[k].extent, LoopKind::serial, std::move(body)};
      if (one_by_one || lanes[k].kind == LoopKind::unrolled)
        loop.unroll = Unroll::full;
      else if (k + 1 == lanes_.size())
        loop.unroll = Unroll::lanes;
      body.clear();
      body.push_back(std::move(loop));
    }
    return body;
  }
  // Does the run add the lanes to one total? These additions must stay in order. A vectoriser would load a vector and
  // take it apart, which costs more than scalar code.
  bool adds_lanes(const Block& run) const {
    return std::any_of(run.begin(), run.end(), [&](const Statement& s) {
      auto* c = std::get_if<Combine>(&s);
      return c && survey_.made.at(c->to).lanes.size() < lanes_.size();
    });
  }

  // --- locals in the place of registers ---
  bool is_local(Register r) const { return locals_.count(r) > 0; }
  Memory local(Register r) const { return Memory::local(locals_.at(r)); }
  Term lane_of(Register r) const {
    Term out;
    int64_t stride = 1;
    const Lanes& lanes = survey_.made.at(r).lanes;
    for (size_t k = lanes.size(); k-- > 0; stride *= lanes[k].extent)
      out = out + Term::iterator(lanes[k].variable, stride);
    return out;
  }

  // The statements of a run, with loads of the locals that other runs have stored, and stores to those that other runs
  // load. `loaded` maps registers to their copies that an enclosing block has already loaded or defined.
  Block mapped(const Block& block, std::map<Register, Register> loaded) {
    Block out;
    auto here = [&](Register r) {
      auto made = survey_.made.find(r);
      if (made == survey_.made.end() || own_.count(r)) return r;
      const std::optional<double> constant = made->second.constant;
      const bool again = constant && !made->second.lanes.empty();
      if (!again && !is_local(r)) return r;
      if (auto at = loaded.find(r); at != loaded.end()) return at->second;
      const Register fresh = add_register(kernel_, kernel_.registers[size_t(r)]);
      if (again)
        out.push_back(Define{fresh, Constant{*constant}});
      else
        out.push_back(Define{fresh, Load{local(r), lane_of(r)}});
      if (again || !survey_.names.count(r)) loaded[r] = fresh;  // an accumulator may change, and is loaded at each use
      return fresh;
    };
    auto renamed = [&](const Statement& s) {
      Block one = {s};
      rename(one, {here, nullptr, nullptr});
      return std::move(one[0]);
    };
    for (const Statement& s : block)
      match(
          s,
          [&](const Define& d) {
            out.push_back(renamed(s));
            if (is_local(d.to)) out.push_back(Store{local(d.to), lane_of(d.to), d.to});
          },
          [&](const Reset& r) {
            if (!is_local(r.to)) return out.push_back(renamed(s));
            const Register start = add_register(kernel_, kernel_.registers[size_t(r.to)]);
            out.push_back(Define{start, Constant{r.value}});
            out.push_back(Store{local(r.to), lane_of(r.to), start});
          },
          [&](const Combine& c) {
            if (!is_local(c.to)) return out.push_back(renamed(s));
            out.push_back(renamed(StoreCombine{local(c.to), lane_of(c.to), c.accumulator, c.value, c.factor}));
          },
          [&](const CombineFirst& c) {
            if (!is_local(c.best)) return out.push_back(renamed(s));
            out.push_back(
                renamed(StoreFirst{local(c.position), local(c.best), lane_of(c.best), c.accumulator, c.value, c.term}));
          },
          [&](const OneOf<Store, StoreCombine, StoreFirst, Move, Barrier, Prefetch> auto&) {
            out.push_back(renamed(s));
          },
          [&](const If& i) {
            Statement copy = renamed(If{i.where, {}});
            *inside(copy) = mapped(i.body, loaded);
            out.push_back(std::move(copy));
          },
          [](const For&) { CARAVAN_CHECK(false, "a run has a loop in it"); });
    return out;
  }

  // --- vectors ---
  // The vector width in which the run is computed, 1 if not in vectors. Sets the width of the registers that differ
  // between lanes.
  int vector_width(const Block& run) {
    const Lane& lane = lanes_.back();
    const bool fits = lane.kind == LoopKind::vector && lane.extent <= target_.tuning.most_vector_lanes &&
                      (lane.extent & (lane.extent - 1)) == 0;
    if (!fits || inner_loops_ == 0 || !has_vectors()) return 1;
    std::optional<DType> dtype;
    auto same = [&](DType t) {
      return (t == DType::f32 || t == DType::f64) && t == dtype.value_or(t) && (dtype = t, true);
    };
    std::set<Register> vectors, constants;
    bool sums = false, fuses = false;
    for (const Statement& s : run) {
      if (auto* c = std::get_if<StoreCombine>(&s)) {
        const bool varies = vectors.count(c->value) || (c->factor >= 0 && vectors.count(c->factor));
        sums = c->accumulator == Accumulator::add && c->buffer.is_local() && same(type(c->buffer)) &&
               same(type(c->value)) && varies && coefficient(c->offset, lane.variable) == 1;
        if (!sums) return 1;
        fuses = fuses || c->factor >= 0;
        continue;
      }
      auto* d = std::get_if<Define>(&s);
      if (!d) return 1;
      if (std::holds_alternative<Constant>(d->value)) {
        constants.insert(d->to);
      } else if (auto* load = std::get_if<Load>(&d->value)) {
        const int64_t step = coefficient(load->offset, lane.variable);
        if (step == 0 && load->buffer.is_local()) continue;
        if (step != 0 && step != 1) return 1;
        if (!same(type(d->to)) || !same(type(load->buffer))) return 1;
        if (step == 1) vectors.insert(d->to);
      } else if (auto* apply = std::get_if<Apply>(&d->value)) {
        const bool arithmetic =
            apply->op == Op::add || apply->op == Op::sub || apply->op == Op::mul || apply->op == Op::neg;
        if (!arithmetic || !same(type(d->to)) || apply->compute != type(d->to)) return 1;
        for (int k = 0; k < row(apply->op).arity; ++k) {
          const Register r = apply->args[k];
          if (!constants.count(r) && !is_outer_constant(r) && type(r) != type(d->to)) return 1;
          if (vectors.count(r)) vectors.insert(d->to);
        }
      } else {
        return 1;
      }
    }
    if (!sums) return 1;
    const int width = int(std::min(lane.extent, target_.lanes(*dtype)));
    if (width < 2 || (fuses && width * bytes(*dtype) < kShortestVector)) return 1;
    for (Register r : vectors) kernel_.registers[size_t(r)].width = width;
    return width;
  }
  bool is_outer_constant(Register r) const {
    auto made = survey_.made.find(r);
    return made != survey_.made.end() && made->second.constant;
  }
  DType type(Register r) const { return kernel_.registers[size_t(r)].dtype; }
  DType type(const Memory& memory) const {
    return memory.is_local() ? kernel_.locals[size_t(memory.local())].dtype : module_.buffers[size_t(memory)].dtype;
  }

  const Module& module_;
  Kernel& kernel_;
  const Target& target_;
  const Survey survey_;
  std::map<Register, int> locals_;
  Lanes lanes_;             // around the current statement, outermost first
  int inner_loops_ = 0;     // number of loops between the lanes and the current statement
  std::set<Register> own_;  // registers that the current run defines
};

}  // namespace

Module expand_lanes(const Module& module, const Target& target) {
  return with_changed_kernels(module, [&](Kernel& kernel) { Expander(module, kernel, target); });
}

}  // namespace caravan::schedule
