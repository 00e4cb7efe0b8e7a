#include "caravan/loop/dependence.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "caravan/loop/walk.h"

namespace caravan::loop {

using Part = Term::Part;

std::map<Variable, int64_t> extents_of(const Block& block) {
  std::map<Variable, int64_t> out;
  for_each_of<For>(block, [&](const For& f) {
    int64_t& extent = out[f.variable];
    extent = std::max(extent, f.extent);
  });
  return out;
}

int64_t coefficient(const Term& term, Variable variable) {
  for (const Part& part : term.parts)
    if (part.kind == Part::Kind::iterator && part.which == variable) return part.coefficient;
  return 0;
}

LoopOffset loop_offset(const Term& term, const std::vector<Variable>& shared,
                       const std::map<Variable, int64_t>& inside) {
  LoopOffset out;
  out.shared.assign(shared.size(), 0);
  out.low = out.high = term.constant;
  for (const Part& part : term.parts) {
    if (part.kind == Part::Kind::load) {
      out.known = false;
      continue;
    }
    if (part.kind == Part::Kind::iterator) {
      if (auto at = std::find(shared.begin(), shared.end(), part.which); at != shared.end()) {
        out.shared[size_t(at - shared.begin())] = part.coefficient;
        continue;
      }
      if (auto at = inside.find(part.which); at != inside.end()) {
        const int64_t reach = part.coefficient * (at->second - 1);
        (reach < 0 ? out.low : out.high) += reach;
        continue;
      }
    }
    out.fixed[{part.kind, part.which}] = part.coefficient;
  }
  return out;
}

bool apart(const std::vector<LoopOffset>& offsets, const std::vector<int64_t>& extents) {
  const LoopOffset& first = offsets[0];
  int64_t low = first.low, high = first.high;
  for (const LoopOffset& offset : offsets) {
    if (!offset.known || offset.shared != first.shared || offset.fixed != first.fixed) return false;
    low = std::min(low, offset.low), high = std::max(high, offset.high);
  }
  std::vector<std::pair<int64_t, int64_t>> digits;  // stride and extent of each loop
  for (size_t d = 0; d < first.shared.size(); ++d) {
    if (extents[d] <= 1) continue;
    if (first.shared[d] == 0) return false;
    digits.push_back({std::abs(first.shared[d]), extents[d]});
  }
  std::sort(digits.begin(), digits.end());
  int64_t room = high - low + 1;
  for (auto [stride, extent] : digits) {
    if (stride < room) return false;
    room += stride * (extent - 1);
  }
  return true;
}

bool has_digit(const Term& offset, const Digit& digit, const std::map<Variable, int64_t>& extents, int64_t width) {
  const int64_t all = digit.stride * digit.extent;
  if (digit.stride < 1 || coefficient(offset, digit.variable) != digit.stride) return false;
  int64_t low = ((offset.constant % all) + all) % all, high = low + width - 1;
  for (const Part& part : offset.parts) {
    const bool iterator = part.kind == Part::Kind::iterator;
    if ((iterator && part.which == digit.variable) || part.coefficient % all == 0) continue;
    const auto extent = iterator ? extents.find(part.which) : extents.end();
    if (extent == extents.end()) return false;
    const int64_t reach = part.coefficient * (extent->second - 1);
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high < digit.stride;
}

Term without_digit(const Term& offset, const Digit& digit) {
  const int64_t all = digit.stride * digit.extent, low = ((offset.constant % all) + all) % all;
  Term out = Term::number((offset.constant - low) / digit.extent + low);
  for (const Part& part : offset.parts) {
    if (part.kind == Part::Kind::iterator && part.which == digit.variable) continue;
    const bool above = part.coefficient % all == 0;
    out.add(part.kind, part.which, above ? part.coefficient / digit.extent : part.coefficient);
  }
  return out;
}

namespace {

// Collects the accumulators that a block resets (`own`) and those that it combines values into (`changed`).
void accumulators(const Block& block, std::set<Register>& own, std::set<Register>& changed) {
  for_each_statement(block, [&](const Statement& s) {
    match(
        s, [&](const Reset& r) { own.insert(r.to); }, [&](const Combine& c) { changed.insert(c.to); },
        [&](const CombineFirst& c) { changed.insert(c.best), changed.insert(c.position); },
        [](const OneOf<Define, Store, StoreCombine, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) {});
  });
}

// In y[8*id + k], where k < 8 and nothing is known of id, different k have different remainders when divided by 8.
bool residues_apart(Variable variable, int64_t extent, const std::vector<const Term*>& terms) {
  const int64_t stride = std::abs(coefficient(*terms[0], variable));
  int64_t unit = 0;  // divides everything else in the offsets
  for (const Term* term : terms) {
    if (coefficient(*term, variable) != coefficient(*terms[0], variable)) return false;
    unit = std::gcd(unit, term->constant - terms[0]->constant);
    for (const Part& part : term->parts)
      if (part.kind != Part::Kind::iterator || part.which != variable) unit = std::gcd(unit, part.coefficient);
  }
  return stride > 0 && stride * (extent - 1) < unit;
}

// The first and last value of loop variables and of indices that were loaded.
using Ranges = std::map<std::pair<Part::Kind, int>, std::pair<int64_t, int64_t>>;
constexpr std::pair kAnyValue = {INT64_MIN, INT64_MAX};
std::pair<Part::Kind, int> iterator_key(Variable variable) { return {Part::Kind::iterator, variable}; }

// An access, and the values for which the guards around it let it run.
struct Guarded {
  Term offset;
  Ranges range;
};
std::map<ir::BufferId, std::vector<Guarded>> guarded_accesses(const Block& body, const Extents& extents) {
  std::map<ir::BufferId, std::vector<Guarded>> out;
  Ranges all;
  for (const auto& [variable, extent] : extents) all[iterator_key(variable)] = {0, extent - 1};
  for_each_with_path(body, [&](const Statement& s, const Path& path) {
    if (inside(s)) return;
    auto range = all;
    for (const Statement* around : path)
      if (auto* loop = std::get_if<For>(around))
        range[iterator_key(loop->variable)] = {0, loop->extent - 1};
      else if (auto* guard = std::get_if<If>(around))
        for (const Term& term : guard->where) {
          if (term.parts.size() != 1) continue;
          const Part& part = term.parts[0];
          if (part.kind == Part::Kind::load) range.try_emplace({part.kind, part.which}, kAnyValue);
          const auto known = range.find({part.kind, part.which});
          if (known == range.end()) continue;
          auto& [first, last] = known->second;
          if (part.coefficient == 1) first = std::max(first, -term.constant);
          if (part.coefficient == -1) last = std::min(last, term.constant);
        }
    std::erase_if(range, [](const auto& entry) {
      return entry.second.first == kAnyValue.first || entry.second.second == kAnyValue.second;
    });
    for_each_access(s, [&](const Access& a) { out[a.buffer].push_back({*a.offset, range}); });
  });
  return out;
}

// In y[200*m + 128*b + j], where j < 128 if b is 0 and j < 72 if b is 1, the remainder of the offset when divided by
// 200 is in a range of its own for each b. In general, seen from one loop of this stride, the rest of every offset, or
// its remainder, must be in one range that is no longer than the stride. The same holds in y[65*d + id], where a guard
// says that id is at most 64.
bool ranges_apart(Variable variable, int64_t extent, const std::vector<Guarded>& accesses) {
  const int64_t stride = coefficient(accesses[0].offset, variable), reach = stride * (extent - 1);
  if (stride < 1) return false;
  auto fixed_of = [](const Guarded& a) {  // what is not of a loop inside
    std::vector<Part> out;
    for (const Part& part : a.offset.parts)
      if (!a.range.count({part.kind, part.which})) out.push_back(part);
    return out;
  };
  auto apart_by = [&](int64_t unit) {  // 0: no remainder is taken
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (const Guarded& a : accesses) {
      if (coefficient(a.offset, variable) != stride || fixed_of(a) != fixed_of(accesses[0])) return false;
      int64_t low = unit == 0 ? a.offset.constant : ((a.offset.constant % unit) + unit) % unit, high = low;
      for (const Part& part : a.offset.parts) {
        const bool own = part.kind == Part::Kind::iterator && part.which == variable;
        if (own || (unit > 0 && part.coefficient % unit == 0)) continue;
        const auto range = a.range.find({part.kind, part.which});
        if (range == a.range.end()) {
          if (unit > 0 || part.kind == Part::Kind::load) return false;
          continue;
        }
        const auto [first, last] = range->second;
        low += std::min(part.coefficient * first, part.coefficient * last);
        high += std::max(part.coefficient * first, part.coefficient * last);
      }
      if (unit > 0 && (low < 0 || stride * a.range.at(iterator_key(variable)).second + high >= unit)) return false;
      least = std::min(least, low), most = std::max(most, high);
    }
    return most - least < stride && (unit == 0 || most < stride);
  };
  // The divisor divides all steps that are larger than what the loop reaches. Some of them may be constants.
  int64_t all = 0;
  for (const Guarded& a : accesses)
    for (const Part& part : a.offset.parts)
      if (std::abs(part.coefficient) > reach) all = std::gcd(all, part.coefficient);
  if (apart_by(0) || (all > reach && apart_by(all))) return true;
  return all > 0 && std::any_of(accesses.begin(), accesses.end(), [&](const Guarded& a) {
           const int64_t unit = a.offset.constant > reach ? std::gcd(all, a.offset.constant) : 0;
           return unit > reach && apart_by(unit);
         });
}

// Do different iterations of the loop touch different elements? Tries four proofs. In y[8*o + k], a loop over o around
// one over k < 8, the elements of one iteration are contiguous. In y[k + 3*o], a loop over k < 3 around one over o,
// they are not, but k is a digit of all offsets, or all pairs of (k, o) give different elements. The last is by
// remainders.
bool elements_apart(Variable variable, int64_t extent, const std::vector<const Term*>& terms,
                    const std::map<Variable, int64_t>& inside) {
  auto apart_over = [&](const std::vector<Variable>& variables, const std::vector<int64_t>& extents) {
    std::vector<LoopOffset> offsets;
    for (const Term* term : terms) offsets.push_back(loop_offset(*term, variables, inside));
    return apart(offsets, extents);
  };
  std::vector<Variable> variables = {variable};
  std::vector<int64_t> extents = {extent};
  if (apart_over(variables, extents) || residues_apart(variable, extent, terms)) return true;
  const Digit digit{variable, extent, coefficient(*terms[0], variable)};
  if (std::all_of(terms.begin(), terms.end(), [&](const Term* t) { return has_digit(*t, digit, inside); })) return true;
  for (const auto& [within, count] : inside)
    if (coefficient(*terms[0], within) != 0) variables.push_back(within), extents.push_back(count);
  return variables.size() > 1 && apart_over(variables, extents);
}

// Do different iterations touch different elements of every buffer that the loop writes?
bool writes_apart(Variable variable, int64_t extent, const Block& body) {
  if (extent <= 1) return true;
  const std::map<Variable, int64_t> inside = extents_of(body);
  std::map<ir::BufferId, std::vector<const Term*>> touched;
  std::set<ir::BufferId> written;
  for_each_access(body, [&](const Access& a) {
    touched[a.buffer].push_back(a.offset);
    if (a.write) written.insert(a.buffer);
  });
  std::map<ir::BufferId, std::vector<Guarded>> guarded;
  return std::all_of(written.begin(), written.end(), [&](ir::BufferId id) {
    if (elements_apart(variable, extent, touched.at(id), inside)) return true;
    if (guarded.empty()) {
      Extents all = inside;
      all[variable] = extent;
      guarded = guarded_accesses(body, all);
    }
    return ranges_apart(variable, extent, guarded.at(id));
  });
}

bool includes(const std::set<Register>& all, const std::set<Register>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

// Do inner loops combine only into accumulators in `own`, and does either every iteration of `loop` enter them or none?
bool inner_loops_agree(const Block& block, Variable loop, const std::set<Register>& own) {
  auto differs = [&](const Part& part) {
    return part.kind == Part::Kind::load || (part.kind == Part::Kind::iterator && part.which == loop);
  };
  return std::all_of(block.begin(), block.end(), [&](const Statement& s) {
    return match(
        s,
        [&](const For& f) {
          std::set<Register> resets, changed;
          accumulators(f.body, resets, changed);
          return includes(own, changed) && inner_loops_agree(f.body, loop, own);
        },
        [&](const If& i) {
          if (!has_loop(i.body)) return true;
          for (const Term& term : i.where)
            if (std::any_of(term.parts.begin(), term.parts.end(), differs)) return false;
          return inner_loops_agree(i.body, loop, own);
        },
        [](const Simple auto&) { return true; });
  });
}

}  // namespace

bool overwrites_loads(const Block& block) {
  std::set<ir::BufferId> written;
  for_each_access(block, [&](const Access& a) {
    if (a.write) written.insert(a.buffer);
  });
  return std::any_of(block.begin(), block.end(), [&](const Statement& s) {
    auto* define = std::get_if<Define>(&s);
    auto* load = define ? std::get_if<Load>(&define->value) : nullptr;
    return load && written.count(load->buffer);
  });
}

bool independent(Variable variable, int64_t extent, const Block& body) {
  std::set<Register> own, changed;
  accumulators(body, own, changed);
  return includes(own, changed) && writes_apart(variable, extent, body);
}

namespace {

// Does the loop read a total while it still adds to it?
bool reads_total(const Block& body, const std::set<Register>& own, const std::set<Register>& changed) {
  bool out = false;
  for (const Statement& s : body)
    for_each_use(s, [&](Register r) { out = out || (changed.count(r) && !own.count(r)); });
  return out;
}

}  // namespace

bool shared_by_lanes(const For& loop) {
  std::set<Register> own, changed;
  accumulators(loop.body, own, changed);
  bool keeps_first = false;  // a position of another lane may come first
  for_each_of<CombineFirst>(loop.body, [&](const CombineFirst& c) { keeps_first = keeps_first || !own.count(c.best); });
  return !keeps_first && !reads_total(loop.body, own, changed) && writes_apart(loop.variable, loop.extent, loop.body);
}

bool has_lanes(const For& loop) {
  bool all = true, any = false;
  for_each_inner_access(loop.body, [&](const Access& a) {
    const int64_t c = coefficient(*a.offset, loop.variable);
    all = all && (c == 0 || c == 1), any = any || c == 1;
  });
  return all && any;
}

bool side_by_side(const For& loop) {
  std::set<Register> own, changed;
  accumulators(loop.body, own, changed);
  // Accumulators that are reset outside of the loop. Only one statement may add to each, or the additions would change
  // their order.
  std::set<Register> totals;
  bool added_once = true;
  auto adds = [&](Register to) { added_once = added_once && (own.count(to) || totals.insert(to).second); };
  for_each_statement(loop.body, [&](const Statement& s) {
    match(
        s, [&](const Combine& c) { adds(c.to); }, [&](const CombineFirst& c) { adds(c.best); },
        [](const OneOf<Define, Reset, Store, StoreCombine, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) {});
  });
  if (!added_once) return false;
  return !reads_total(loop.body, own, changed) && writes_apart(loop.variable, loop.extent, loop.body) &&
         inner_loops_agree(loop.body, loop.variable, own);
}

namespace {

// Which lane touches which element: the loops from the first lane loop on, and an offset over the numbers of these.
struct LaneAccess {
  std::vector<std::tuple<LoopKind, int64_t, int64_t>> loops;  // kinds, extents, chunks
  Term offset;
  int64_t elements = 1;  // of a piece
  bool operator==(const LaneAccess&) const = default;
};
LaneAccess lane_access(const Kernel& kernel, const Statement& s, const Access& access, const Path& path) {
  LaneAccess out;
  std::map<Variable, int> number;
  for (const For* loop : loops_of(path)) {
    if (out.loops.empty() && loop->kind != LoopKind::lanes) continue;
    number.emplace(loop->variable, -1 - int(out.loops.size()));
    out.loops.emplace_back(loop->kind, loop->extent, loop->chunk);
  }
  out.offset.constant = access.offset->constant;
  for (const Part& part : access.offset->parts) {
    const auto at = part.kind == Part::Kind::iterator ? number.find(part.which) : number.end();
    out.offset.add(part.kind, at == number.end() ? part.which : at->second, part.coefficient);
  }
  if (auto* move = std::get_if<Move>(&s)) out.elements = kernel.locals[size_t(move->local)].elements;
  return out;
}

}  // namespace

std::set<ir::BufferId> exchanged_by_lanes(const Kernel& kernel) {
  std::map<ir::BufferId, std::vector<LaneAccess>> accesses;
  std::set<ir::BufferId> out;
  if (kernel.grid.lanes <= 1) return out;
  for_each_access(kernel, [&](const Access& a) {
    if (a.write) out.insert(a.buffer);
  });
  for_each_with_path(statements(kernel), [&](const Statement& s, const Path& path) {
    if (inside(s)) return;
    for_each_access(s, [&](const Access& a) {
      if (out.count(a.buffer)) accesses[a.buffer].push_back(lane_access(kernel, s, a, path));
    });
  });
  std::erase_if(out, [&](ir::BufferId id) {
    const std::vector<LaneAccess>& all = accesses[id];
    return all.size() <= 1 || (!all[0].loops.empty() &&
                               std::all_of(all.begin(), all.end(), [&](const LaneAccess& a) { return a == all[0]; }));
  });
  return out;
}

}  // namespace caravan::loop
