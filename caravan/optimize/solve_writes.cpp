#include "caravan/optimize/solve_writes.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>

#include "caravan/ir/write_form.h"
#include "caravan/ops/op.h"

namespace caravan::optimize {

using ir::Accumulation;
using ir::BufferId;
using ir::Program;
using ir::Term;
using Part = Term::Part;

namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

// s*x + d*y + c solved for x. The letters are those of the header.
struct Solution {
  int x = 0, y = 0;              // iterators
  int64_t residues = 1;          // j < residues = |s|/g
  int64_t per_turn = 0;          // x = q - per_turn * m
  int64_t turns = 0;             // m < turns
  int64_t from = 0, extent = 0;  // from <= q < from + extent
  int64_t points() const { return extent * residues * turns; }
};

// The interval of those q for which some j gives an element of the axis.
struct Span {
  int64_t low, high;
};
Span written(int64_t s, int64_t d, int64_t c, int64_t residues, int64_t size) {
  Span out{INT64_MAX, INT64_MIN};
  for (int64_t j : {int64_t{0}, residues - 1}) {  // the bounds are linear in j, so its two ends suffice
    const int64_t first = -c - d * j, last = size - 1 - c - d * j;
    out.low = std::min(out.low, ceil_div(s > 0 ? first : last, s));
    out.high = std::max(out.high, floor_div(s > 0 ? last : first, s));
  }
  return out;
}

Solution solution(const Part& x, const Part& y, int64_t c, const std::vector<int64_t>& extents, int64_t size) {
  const int64_t s = x.coefficient, d = y.coefficient, g = std::gcd(s, d);
  Solution out{.x = x.which, .y = y.which, .residues = std::abs(s) / g, .per_turn = s > 0 ? d / g : -d / g};
  out.turns = ceil_div(extents[size_t(y.which)], out.residues);
  const int64_t moved = out.per_turn * (out.turns - 1);
  const Span all = written(s, d, c, out.residues, size);
  Span used{std::min<int64_t>(0, moved), extents[size_t(x.which)] - 1 + std::max<int64_t>(0, moved)};
  used = {std::max(used.low, all.low), std::min(used.high, all.high)};
  // Prefer to reach every element, unless that visits so many more points that filling with 0 costs less.
  if (g == 1 && all.high - all.low < 2 * (used.high - used.low + 1)) used = all;
  out.from = used.low;
  out.extent = used.high - used.low + 1;
  return out;
}

class AccumulationSolver {
 public:
  AccumulationSolver(Program& program, const Accumulation& a) : program_(program), a_(a), out_(a) {
    for (const ir::Symbol& symbol : program.symbols) symbol_ranges_.push_back(symbol.range);
  }

  std::optional<Accumulation> run() {
    if (keeps_position(a_.accumulator) || std::ranges::find(a_.extents, 0) != a_.extents.end()) return std::nullopt;
    const std::vector<int64_t> sizes = program_.buffers[size_t(a_.target)].shape.sizes();
    for (size_t axis = 0; axis < a_.write.size(); ++axis)
      if (!ir::tells_apart(a_.write[axis], a_.extents) && !solve(axis, sizes[axis])) return std::nullopt;
    number_iterators();
    substitute_iterators();
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      add_condition(out_.write[axis]);
      add_condition(Term::number(sizes[axis] - 1) - out_.write[axis]);
    }
    if (a_.body.uses_position()) add_position();
    const bool proved = std::ranges::all_of(
        out_.operands, [&](const ir::Operand& operand) { return ir::reads_in_range(program_, out_, operand); });
    if (!proved || !ir::write_form(program_, out_).injective) return std::nullopt;
    return std::move(out_);
  }

 private:
  bool solve(size_t axis, int64_t size) {
    const Term& term = a_.write[axis];
    const bool two = term.parts.size() == 2 && std::ranges::all_of(term.parts, [&](const Part& part) {
                       return part.kind == Part::Kind::iterator && axes_of(part.which) == 1;
                     });
    if (!two) return false;
    const Solution first = solution(term.parts[0], term.parts[1], term.constant, a_.extents, size);
    const Solution second = solution(term.parts[1], term.parts[0], term.constant, a_.extents, size);
    if (first.extent <= 0 || second.extent <= 0) return false;  // nothing is written
    solutions_.push_back(second.points() < first.points() ? second : first);
    return true;
  }
  int64_t axes_of(int iterator) const {
    return std::ranges::count_if(a_.write, [&](const Term& term) {
      return std::ranges::any_of(
          term.parts, [&](const Part& part) { return part.kind == Part::Kind::iterator && part.which == iterator; });
    });
  }

  // Orders the new iterators, outermost first. Every m comes first, so that the condition that keeps x in range is
  // tested outside of the loops over other reduced iterators. Then come the others, with q in the place of x. Every j
  // comes last, so that its loop is inside that of its q.
  void number_iterators() {
    iterators_.resize(a_.iterators.size());
    out_.iterators.clear(), out_.extents.clear(), out_.chosen_by.clear();
    auto made = [&](const std::string& name, int64_t extent) {
      out_.iterators.push_back(name), out_.extents.push_back(extent);
      return Term::iterator(int(out_.extents.size()) - 1);
    };
    for (const Solution& s : solutions_) {
      const std::string& name = a_.iterators[size_t(s.y)];
      const Term m = made(s.residues > 1 ? name + "_m" : name, s.turns);
      iterators_[size_t(s.y)] = m * s.residues;
      iterators_[size_t(s.x)] = Term::number(s.from) - m * s.per_turn;
    }
    std::map<size_t, size_t> kept;  // iterators that stay as they are, and what they were
    for (size_t k = 0; k < a_.iterators.size(); ++k) {
      const auto at = std::ranges::find(solutions_, int(k), &Solution::x);
      if (at != solutions_.end())
        iterators_[k] = iterators_[k] + made(a_.iterators[k] + "_q", at->extent);
      else if (std::ranges::find(solutions_, int(k), &Solution::y) == solutions_.end())
        iterators_[k] = made(a_.iterators[k], a_.extents[k]), kept[out_.extents.size() - 1] = k;
    }
    for (const Solution& s : solutions_)
      if (s.residues > 1)
        iterators_[size_t(s.y)] = iterators_[size_t(s.y)] + made(a_.iterators[size_t(s.y)] + "_j", s.residues);
    if (a_.chosen_by.empty()) return;
    out_.chosen_by = out_.extents;
    for (const auto& [now, before] : kept) out_.chosen_by[now] = a_.chosen_by[before];
  }

  void substitute_iterators() {
    out_.where.clear();
    for (const Term& term : a_.where) add_condition(ir::substitute(term, iterators_));
    for (Term& term : out_.write) term = ir::substitute(term, iterators_);
    for (ir::Operand& operand : out_.operands)
      for (Term& term : operand.map) term = ir::substitute(term, iterators_);
    for (const Solution& s : solutions_)
      for (int k : {s.x, s.y}) {
        add_condition(iterators_[size_t(k)]);
        add_condition(Term::number(a_.extents[size_t(k)] - 1) - iterators_[size_t(k)]);
      }
  }
  void add_condition(const Term& term) {
    const bool known = ir::range(term, out_.extents, symbol_ranges_).low >= 0 ||
                       std::ranges::find(out_.where, term) != out_.where.end();
    if (!known) out_.where.push_back(term);
  }

  // Replaces the position by a read of an iota at the linear index of the old iterators.
  void add_position() {
    Term at;
    int64_t points = 1;
    for (size_t k = a_.extents.size(); k-- > 0; points *= a_.extents[k]) at = at + iterators_[k] * points;
    const BufferId iota = BufferId(program_.buffers.size());
    const std::string name = "positions of " + program_.buffers[size_t(a_.target)].name + " " + std::to_string(iota);
    Shape shape;
    shape.output.push_back({points});
    program_.buffers.push_back({name, std::move(shape), DType::i64, ir::IotaLeaf{}, a_.source});
    out_.body = out_.body.with_position(int(out_.operands.size()));
    out_.operands.push_back({iota, {std::move(at)}});
  }

  Program& program_;
  const Accumulation& a_;
  Accumulation out_;
  std::vector<Solution> solutions_;
  std::vector<Term> iterators_;  // the old ones as terms of the new ones
  std::vector<int64_t> symbol_ranges_;
};

}  // namespace

Program solve_writes(const Program& program) {
  Program out = program;
  for (size_t k = 0; k < program.accumulations.size(); ++k) {
    if (program.accumulations[k].collective || ir::write_form(program, program.accumulations[k]).injective) continue;
    const size_t buffers = out.buffers.size();
    if (auto solved = AccumulationSolver(out, program.accumulations[k]).run())
      out.accumulations[k] = std::move(*solved);
    else
      out.buffers.resize(buffers);
  }
  return out;
}

}  // namespace caravan::optimize
