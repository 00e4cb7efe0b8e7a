#include "caravan/shape/project.h"

#include <algorithm>
#include <set>

namespace caravan::shape {

namespace {

using ir::Term;

class Projector {
 public:
  Projector(const Relation& relation, const Clause& clause, const Instance& instance, const Solution& solution)
      : relation_(relation), clause_(clause), instance_(instance), solution_(solution) {}

  Projection run() {
    find_row_variables();
    number_iterators();
    out_.slots.resize(relation_.slots.size());
    for (size_t s = 0; s < relation_.slots.size(); ++s)
      if (clause_.slots[s]) project_slot(int(s));
    add_conditions();
    note_reduced();
    return std::move(out_);
  }

 private:
  const std::vector<int>& axes(RowVariableId v) const {
    return solution_.row_axes[size_t(instance_.row_variables[size_t(v)])];
  }
  int64_t class_size(int c) const { return solution_.classes[size_t(c)].size; }
  int64_t size(IteratorId i) const { return solution_.size(instance_.iterators[size_t(i)]); }

  // A variable that is an operand of a join runs with the join's result.
  void find_row_variables() {
    joined_.assign(relation_.row_variables.size(), -1);
    used_.assign(relation_.row_variables.size(), false);
    for (const Join& join : relation_.joins)
      for (RowVariableId v : join.operands) joined_[size_t(v)] = join.result;
    for (size_t s = 0; s < relation_.slots.size(); ++s)
      if (clause_.slots[s])
        for (const RowPattern& row : relation_.slots[s].rows)
          for (auto v : {row.variable, row.second})
            if (v) used_[size_t(joined_[size_t(*v)] < 0 ? *v : joined_[size_t(*v)])] = true;
  }

  void number_iterators() {
    first_of_iterator_.assign(relation_.iterators.size(), -1);
    first_of_row_.assign(relation_.row_variables.size(), -1);
    std::set<std::string> names;
    auto add = [&](std::string name, int64_t extent) {
      if (!names.insert(name).second)
        for (int n = 2;; ++n)
          if (std::string other = name + std::to_string(n); names.insert(other).second) {
            name = other;
            break;
          }
      out_.iterators.push_back(std::move(name));
      out_.extents.push_back(extent);
    };
    for (const SizeOf& item : relation_.order) {
      if (!item.row) {
        if (!clause_.iterators[size_t(item.which)]) continue;
        first_of_iterator_[size_t(item.which)] = int(out_.iterators.size());
        const std::string& given = relation_.iterators[size_t(item.which)];
        add(given == "_" ? "any" : given, size(item.which));
        continue;
      }
      if (!used_[size_t(item.which)]) continue;
      first_of_row_[size_t(item.which)] = int(out_.iterators.size());
      const RowVariable& variable = relation_.row_variables[size_t(item.which)];
      std::string stem = variable.name == "..." ? std::string(1, name(variable.kind)[0]) : variable.name;
      const std::vector<int>& row = axes(item.which);
      for (size_t p = 0; p < row.size(); ++p) add(stem + std::to_string(p), class_size(row[p]));
    }
  }

  Term iterator(IteratorId i, int64_t coefficient = 1) const {
    return Term::iterator(first_of_iterator_[size_t(i)], coefficient);
  }

  void append_row(RowVariableId v, std::vector<Term>& terms) const {
    RowVariableId runs = joined_[size_t(v)] < 0 ? v : joined_[size_t(v)];
    const std::vector<int>&own = axes(v), &loop = axes(runs);
    size_t shift = loop.size() - own.size();  // aligned at the right
    for (size_t p = 0; p < own.size(); ++p)
      terms.push_back(own[p] == loop[p + shift] ? Term::iterator(first_of_row_[size_t(runs)] + int(p + shift))
                                                : Term::number(0));
  }

  void project_slot(int slot) {
    std::vector<Term>& terms = out_.slots[size_t(slot)];
    std::vector<int64_t>& sizes = sizes_.emplace_back();
    slot_of_sizes_.push_back(slot);
    for (RowKind kind : kMemoryOrder) {
      const RowPattern& row = relation_.slots[size_t(slot)][kind];
      for (const AxisPattern& axis : row.before) terms.push_back(term(axis));
      if (row.variable) append_row(*row.variable, terms);
      if (row.second) append_row(*row.second, terms);
      for (const AxisPattern& axis : row.after) terms.push_back(term(axis));
      for (int c : solution_.row_axes[size_t(instance_.slots[size_t(slot)][size_t(kind)])])
        sizes.push_back(class_size(c));
    }
  }

  Term term(const AxisPattern& axis) {
    using Kind = AxisPattern::Kind;
    switch (axis.kind) {
      case Kind::iterator: return iterator(axis.iterators[0]);
      case Kind::fixed: return Term::number(axis.index);
      case Kind::symbol: {
        auto at = std::find(out_.symbols.begin(), out_.symbols.end(), axis.symbol);
        if (at == out_.symbols.end()) at = out_.symbols.insert(at, axis.symbol);
        return Term::symbol(int(at - out_.symbols.begin()));
      }
      case Kind::reversed: return Term::number(size(axis.iterators[0]) - 1) - iterator(axis.iterators[0]);
      case Kind::strided: return iterator(axis.iterators[0], axis.stride) + Term::number(axis.offset);
      case Kind::window: {
        int64_t before = axis.padding == Padding::same ? axis.dilation * (size(axis.iterators[1]) - 1) / 2 : axis.pad;
        return iterator(axis.iterators[0], axis.stride) + iterator(axis.iterators[1], axis.dilation) +
               Term::number(axis.offset - before);
      }
      case Kind::parts: {
        int64_t start = 0;
        for (size_t i = 0; i < axis.iterators.size(); ++i) {
          IteratorId part = axis.iterators[i];
          if (part >= 0 && clause_.iterators[size_t(part)]) return iterator(part) + Term::number(start);
          start += part < 0 ? axis.runs[i] : size(part);
        }
        return Term::number(0);
      }
      case Kind::merged: {
        Term out;
        for (IteratorId i : axis.iterators) out = out * size(i) + iterator(i);
        return out;
      }
      case Kind::gathered: return Term::load(axis.slot);
    }
    return {};
  }

  void add_conditions() {
    auto add = [&](const Term& term) {
      if (std::find(out_.where.begin(), out_.where.end(), term) == out_.where.end()) out_.where.push_back(term);
    };
    for (size_t k = 0; k < sizes_.size(); ++k) {
      const std::vector<Term>& terms = out_.slots[size_t(slot_of_sizes_[k])];
      for (size_t a = 0; a < terms.size(); ++a) {
        bool affine = std::all_of(terms[a].parts.begin(), terms[a].parts.end(),
                                  [](const Term::Part& p) { return p.kind == Term::Part::Kind::iterator; });
        if (!affine) continue;  // symbols and index tensors are checked when the program runs
        ir::Interval range = ir::range(terms[a], out_.extents, {});
        if (range.low < 0) add(terms[a]);
        if (range.high >= sizes_[k][a]) add(Term::number(sizes_[k][a] - 1) - terms[a]);
      }
    }
    for (const Inequality& inequality : relation_.where_) {
      bool active = std::all_of(inequality.parts.begin(), inequality.parts.end(),
                                [&](const auto& part) { return clause_.iterators[size_t(part.first)]; });
      if (!active) continue;
      Term term = Term::number(inequality.constant);
      for (auto [which, coefficient] : inequality.parts) term = term + iterator(which, coefficient);
      add(term);
    }
  }

  void note_reduced() {
    out_.reduced.assign(out_.iterators.size(), true);
    for (const Term& term : out_.slots[size_t(relation_.result)])
      for (const Term::Part& part : term.parts)
        if (part.kind == Term::Part::Kind::iterator) out_.reduced[size_t(part.which)] = false;
  }

  const Relation& relation_;
  const Clause& clause_;
  const Instance& instance_;
  const Solution& solution_;
  std::vector<RowVariableId> joined_;
  std::vector<bool> used_;
  std::vector<int> first_of_iterator_, first_of_row_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<int> slot_of_sizes_;
  Projection out_;
};

}  // namespace

Projection project(const Relation& relation, int clause, const Instance& instance, const Solution& solution) {
  return Projector(relation, relation.clauses[size_t(clause)], instance, solution).run();
}

}  // namespace caravan::shape
