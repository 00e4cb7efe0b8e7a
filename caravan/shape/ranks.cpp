// Equations between rows are solved by a union-find structure with offsets (rank(r) = rank(root) + offset(r)), joins by
// a worklist until nothing changes. Then rules close the rows whose ranks nothing determines. A rule is applied only
// when the constraints determine no further rank, and to all rows that it fits at the same time. Ranks never depend on
// sizes, every rank is set once, and lower bounds only grow, up to kMaxRank. So the solver terminates, and the order of
// constraints does not matter.
#include "caravan/shape/ranks.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "caravan/base/error.h"

namespace caravan::shape {

std::string describe(const Origin& origin) {
  return "`" + (origin.call.empty() ? origin.text : origin.call) + "`" + where_text(origin.where);
}

std::string describe_row(const System& system, RowId row) {
  const RowInfo& info = system.rows[size_t(row)];
  return "the " + std::string(name(info.kind)) + " row of " + describe(system.origins[size_t(info.origin)]);
}

namespace {

constexpr int kMaxRank = 32;

class RankSolver {
 public:
  explicit RankSolver(const System& system) : system_(system), nodes_(system.rows.size()) {
    for (size_t r = 0; r < nodes_.size(); ++r) nodes_[r].parent = int(r);
  }

  std::vector<int> solve() {
    unite_equations();
    for (size_t j = 0; j < system_.joins.size(); ++j) {
      const JoinConstraint& join = system_.joins[j];
      attach(join.result, int(j));
      for (RowId r : join.operands) attach(r, int(j));
      enqueue(int(j));
    }
    for (size_t p = 0; p < pairs_.size(); ++p) {
      const Equation& equation = system_.equations[size_t(pairs_[p])];
      const int id = int(system_.joins.size() + p);
      attach(equation.variable, id), attach(equation.second, id);
      enqueue(id);
    }
    propagate();
    while (close_computed() || close_leaves() || close_rest()) propagate();

    std::vector<int> ranks(nodes_.size());
    for (size_t r = 0; r < nodes_.size(); ++r) ranks[r] = *value(RowId(r));
    return ranks;
  }

 private:
  struct Node {
    int parent = 0, offset = 0, size = 1;
    // Of a root:
    std::optional<int> value;
    int low = 0;             // the rank is at least this
    OriginId setter = -1;    // who gave the value
    std::vector<int> joins;  // that mention the class; numbers from joins.size() on are pairs
  };

  // --- weighted union-find ---
  struct Place {
    RowId root;
    int offset;  // rank(row) = rank(root) + offset
  };
  Place find(RowId row) {
    int offset = 0;
    RowId root = row;
    while (nodes_[size_t(root)].parent != root)
      offset += nodes_[size_t(root)].offset, root = nodes_[size_t(root)].parent;
    for (int rest = offset; nodes_[size_t(row)].parent != root && row != root;) {  // compress
      Node& node = nodes_[size_t(row)];
      RowId next = node.parent;
      int step = node.offset;
      node.parent = root, node.offset = rest;
      rest -= step, row = next;
    }
    return {root, offset};
  }
  std::optional<int> value(RowId row) {
    Place at = find(row);
    const auto& v = nodes_[size_t(at.root)].value;
    return v ? std::optional(*v + at.offset) : std::nullopt;
  }
  OriginId setter(RowId row) { return nodes_[size_t(find(row).root)].setter; }
  int low(RowId row) {
    Place at = find(row);
    return std::max(0, nodes_[size_t(at.root)].low + at.offset);
  }
  void attach(RowId row, int join) { nodes_[size_t(find(row).root)].joins.push_back(join); }
  void requeue(const Node& root) {
    for (int j : root.joins) enqueue(j);
  }

  // rank(a) = rank(b) + difference
  void unite(RowId a, RowId b, int difference, OriginId origin) {
    Place x = find(a), y = find(b);
    int gap = y.offset + difference - x.offset;  // rank(x.root) = rank(y.root) + gap
    if (x.root == y.root) {
      if (gap == 0) return;
      if (auto known = value(a)) refuse_ranks(a, {*known, setter(a)}, {*value(b) + difference, origin}, origin);
      refuse_infinite(origin);
    }
    if (nodes_[size_t(x.root)].size > nodes_[size_t(y.root)].size) std::swap(x, y), gap = -gap;
    Node &small = nodes_[size_t(x.root)], &large = nodes_[size_t(y.root)];
    if (small.value && large.value && *small.value != *large.value + gap)
      refuse_ranks(a, {*value(a), setter(a)}, {*value(b) + difference, setter(b)}, origin);
    bool changed = (small.value && !large.value) || small.low - gap > large.low;
    if (small.value && !large.value) large.value = *small.value - gap, large.setter = small.setter;
    large.low = std::max(large.low, small.low - gap);
    requeue(small);
    if (changed) requeue(large);  // the large side only if it learnt something: otherwise the cost is quadratic
    large.joins.insert(large.joins.end(), small.joins.begin(), small.joins.end());
    small.joins.clear(), small.joins.shrink_to_fit();
    large.size += small.size;
    small.parent = y.root, small.offset = gap;
    check_root(y.root, origin);
  }
  void set(RowId row, int rank, OriginId origin) {
    Place at = find(row);
    Node& root = nodes_[size_t(at.root)];
    if (root.value) {
      if (*root.value + at.offset != rank)
        refuse_ranks(row, {*root.value + at.offset, root.setter}, {rank, origin}, origin);
      return;
    }
    if (rank > kMaxRank)
      throw ShapeError("in " + describe(system_.origins[size_t(origin)]) + ": a row of " + std::to_string(rank) +
                           " axes; a row has at most " + std::to_string(kMaxRank) + ".",
                       system_.origins[size_t(origin)].where);
    root.value = rank - at.offset, root.setter = origin;
    check_root(at.root, origin);
    requeue(root);
  }
  void raise(RowId row, int least, OriginId origin) {
    Place at = find(row);
    Node& root = nodes_[size_t(at.root)];
    if (least - at.offset <= root.low) return;
    root.low = least - at.offset;
    check_root(at.root, origin);
    requeue(root);
  }
  void check_root(RowId root, OriginId origin) {
    const Node& node = nodes_[size_t(root)];
    if (node.low > kMaxRank) refuse_infinite(origin);
    if (node.value && *node.value < node.low)
      refuse_ranks(root, {*node.value, node.setter}, {node.low, origin, true}, origin);
  }

  // --- R1: row equations ---
  void unite_equations() {
    for (const KnownRow& known : system_.known) set(known.row, int(known.axes.size()), known.origin);
    for (size_t e = 0; e < system_.equations.size(); ++e) {
      const Equation& equation = system_.equations[e];
      int named = int(equation.before.size() + equation.after.size());
      if (equation.variable < 0)
        set(equation.row, named, equation.origin);
      else if (equation.second < 0)
        raise(equation.row, named, equation.origin), unite(equation.row, equation.variable, named, equation.origin);
      else
        pairs_.push_back(int(e));
    }
  }
  // --- R2: joins and pairs ---
  void enqueue(int id) {
    if (queued_.empty()) queued_.resize(system_.joins.size() + pairs_.size(), false);
    if (queued_[size_t(id)]) return;
    queued_[size_t(id)] = true;
    queue_.push_back(id);
  }
  void propagate() {
    while (!queue_.empty()) {
      int id = queue_.front();
      queue_.pop_front();
      queued_[size_t(id)] = false;
      if (size_t(id) >= system_.joins.size()) {
        visit_pair(system_.equations[size_t(pairs_[size_t(id) - system_.joins.size()])]);
        continue;
      }
      for (Touched* touched : {&for_computed_, &for_leaves_}) touched->add(id, system_.joins.size());
      visit(system_.joins[size_t(id)]);
    }
  }
  // row = A . B: once the rank of one of the two is known, an equation like the others.
  void visit_pair(const Equation& equation) {
    std::optional<int> first = value(equation.variable), second = value(equation.second);
    if (first)
      unite(equation.row, equation.second, *first, equation.origin);
    else if (second)
      unite(equation.row, equation.variable, *second, equation.origin);
    else
      raise(equation.row, low(equation.variable) + low(equation.second), equation.origin);
  }
  void visit(const JoinConstraint& join) {
    int longest = 0;          // of the known operands
    std::vector<RowId> open;  // one per class: the one with the largest offset
    for (RowId r : join.operands) {
      raise(join.result, low(r), join.origin);
      if (auto v = value(r)) {
        longest = std::max(longest, *v);
        continue;
      }
      Place at = find(r);
      auto same = std::find_if(open.begin(), open.end(), [&](RowId o) { return find(o).root == at.root; });
      if (same == open.end())
        open.push_back(r);
      else if (find(*same).offset < at.offset)
        *same = r;
    }
    if (open.empty()) return set(join.result, longest, join.origin);
    raise(join.result, longest, join.origin);
    if (open.size() == 1 && low(open[0]) >= longest) return unite(join.result, open[0], 0, join.origin);
    if (auto result = value(join.result)) {
      if (open.size() == 1 && longest < *result) return set(open[0], *result, join.origin);
      for (RowId r : open)  // no operand is longer than the result
        if (low(r) >= *result) set(r, *result, join.origin);
    }
  }

  // The closing rules look only at joins that were visited since they last looked: nothing changed for the others. (So
  // a long chain that closes link by link costs a link a round, not the whole system.)
  struct Touched {
    std::vector<int> joins;
    std::vector<bool> has;
    void add(int join, size_t of) {
      if (has.empty()) has.resize(of, false);
      if (has[size_t(join)]) return;
      has[size_t(join)] = true;
      joins.push_back(join);
    }
    std::vector<int> take() {
      for (int j : joins) has[size_t(j)] = false;
      return std::exchange(joins, {});
    }
  };

  // --- R3: computed rows that meet rows of one axis ---
  // First the results, as long as what is known of their operands (a least fixpoint); then, by these, the computed
  // operands of joins of one axis. Two steps, because a join of one axis may turn out to have two: two or more are
  // never guessed.
  bool close_computed() {
    constexpr int kBias = 1000;  // tentative_: by root, in the root's rank + kBias; -1 is none
    if (tentative_.empty()) tentative_.resize(nodes_.size(), -1);
    std::vector<RowId> suggested;  // roots
    auto rank_of = [&](RowId r) -> int {
      Place at = find(r);
      const Node& root = nodes_[size_t(at.root)];
      if (root.value) return *root.value + at.offset;
      int t = tentative_[size_t(at.root)];
      return t < 0 ? -1 : t - kBias + at.offset;
    };
    auto suggest = [&](RowId r, int m) {
      Place at = find(r);
      int& t = tentative_[size_t(at.root)];
      if (m < low(r) || t >= m - at.offset + kBias) return false;
      if (t < 0) suggested.push_back(at.root);
      t = m - at.offset + kBias;
      return true;
    };
    auto longest = [&](const JoinConstraint& join) {
      int m = rank_of(join.result);
      for (RowId r : join.operands) m = std::max(m, rank_of(r));
      return m;
    };
    std::vector<int> work;
    for (int j : for_computed_.take())
      if (has_open(system_.joins[size_t(j)])) work.push_back(j);
    for (size_t i = 0; i < work.size(); ++i) {
      const JoinConstraint& join = system_.joins[size_t(work[i])];
      const int m = longest(join);
      if (m < 1 || m > kMaxRank || value(join.result) || !suggest(join.result, m)) continue;
      for (int j : nodes_[size_t(find(join.result).root)].joins)
        if (size_t(j) < system_.joins.size()) work.push_back(j);
    }
    std::vector<RowId> operands;  // of joins of one axis
    for (int j : work) {
      const JoinConstraint& join = system_.joins[size_t(j)];
      if (longest(join) != 1) continue;
      RowId result_root = find(join.result).root;
      for (size_t i = 0; i < join.operands.size(); ++i) {
        RowId r = join.operands[i];
        if (!value(r) && join.roles[i] != Role::leaf && find(r).root != result_root) operands.push_back(r);
      }
    }
    for (RowId r : operands) suggest(r, 1);
    std::sort(suggested.begin(), suggested.end());
    for (RowId r : suggested) set(r, std::exchange(tentative_[size_t(r)], -1) - kBias, system_.rows[size_t(r)].origin);
    return !suggested.empty();
  }
  bool has_open(const JoinConstraint& join) {
    if (!value(join.result)) return true;
    return std::any_of(join.operands.begin(), join.operands.end(), [&](RowId r) { return !value(r); });
  }

  // --- R4: leaves take what they meet ---
  bool close_leaves() {
    std::map<RowId, int> wanted;  // by root
    for (int j : for_leaves_.take()) {
      const JoinConstraint& join = system_.joins[size_t(j)];
      std::optional<int> m = value(join.result);
      if (join.kind != RowKind::output || !m) continue;
      for (size_t i = 0; i < join.operands.size(); ++i) {
        if (join.roles[i] != Role::leaf || value(join.operands[i])) continue;
        bool whole = true;  // does everything else it meets come from linear maps?
        for (size_t k = 0; k < join.operands.size(); ++k)
          if (k != i && join.roles[k] == Role::other) whole = false;
        Place at = find(join.operands[i]);
        int rank = std::max(whole ? *m : std::min(1, *m), low(join.operands[i])) - at.offset;
        auto [entry, added] = wanted.try_emplace(at.root, rank);
        if (!added) entry->second = std::max(entry->second, rank);
      }
    }
    for (auto [root, rank] : wanted) set(root, rank, system_.rows[size_t(root)].origin);
    return !wanted.empty();
  }

  // --- R5: what is left ---
  bool close_rest() {
    struct Open {
      bool only_inputs = true, parameter = false, state = false, meets_inputs = false;
    };
    std::map<RowId, Open> classes;
    for (size_t r = 0; r < nodes_.size(); ++r) {
      if (value(RowId(r))) continue;
      Open& c = classes[find(RowId(r)).root];
      c.only_inputs = c.only_inputs && system_.rows[r].kind == RowKind::input;
      c.parameter = c.parameter || system_.rows[r].owner == Owner::parameter;
      c.state = c.state || system_.rows[r].owner == Owner::state;
    }
    if (classes.empty()) return false;
    for (const JoinConstraint& join : system_.joins) {
      std::optional<int> m = value(join.result);
      if (join.kind != RowKind::input || !m || *m < 1) continue;
      for (size_t i = 0; i < join.operands.size(); ++i)
        if (join.roles[i] == Role::leaf && !value(join.operands[i]))
          classes[find(join.operands[i]).root].meets_inputs = true;
    }
    std::vector<RowId> closable;
    bool parameter = false;
    for (const auto& [root, c] : classes) {
      parameter = parameter || c.parameter;
      if ((c.only_inputs && !c.meets_inputs) || (c.state && !c.parameter)) closable.push_back(root);
    }
    if (closable.empty() && parameter) refuse_undetermined();
    if (closable.empty())  // rows of nothing but computed tensors
      for (const auto& [root, c] : classes) closable.push_back(root);
    for (RowId root : closable) set(root, nodes_[size_t(root)].low, system_.rows[size_t(root)].origin);
    return true;
  }

  // --- messages ---
  [[noreturn]] void refuse_undetermined() {
    std::string out;
    Source where;
    for (size_t r = 0; r < nodes_.size(); ++r) {
      const RowInfo& info = system_.rows[r];
      if (info.owner != Owner::parameter || value(RowId(r))) continue;
      const Origin& origin = system_.origins[size_t(info.origin)];
      std::string kind(name(info.kind));
      out += (out.empty() ? "" : "\n") +
             ("parameter `" + origin.text + "`: its " + kind + " axes are not determined; give `." + kind +
              " = {...}` here" + where_text(origin.where));
      if (!where.known()) where = origin.where;
    }
    throw ShapeError(out, where);
  }
  // How the names of a spec are read, which may not be what was meant.
  static std::string about_names(const std::string& spec) {
    if (spec.find("=>") == spec.npos) return "";
    if (spec.find_first_of(",*+^&<") != spec.npos) return "; this spec separates names by commas, so `ij` is one axis";
    for (size_t from = 0; from < spec.size(); ++from) {
      if (!is_letter(spec[from])) continue;
      size_t to = from, count = 0;
      for (; to < spec.size() && (is_letter(spec[to]) || is_digit(spec[to])); ++to)
        count += is_letter(spec[to]) || !is_digit(spec[to - 1]);
      const std::string word = spec.substr(from, to - from);
      const bool of_row = from > 0 && spec[from - 1] == '.';  // ..name..
      if (count > 1 && !of_row)
        return "; this spec has no comma, so every letter is an axis and every number an index: `" + word + "` is " +
               std::to_string(count) + " of them; with a comma anywhere, as in `" + word + ",`, names may be longer";
      from = to;
    }
    return "";
  }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  [[noreturn]] void refuse_infinite(OriginId origin) {
    throw MisfitError(
        "infinitely many axes in " + describe(system_.origins[size_t(origin)]) +
            ": a tensor would need one axis more than it has. In one spec `...`, like `..name..`, stands for the same "
            "axes in every shape; check where it is written, and what is assigned to a state.",
        origin, system_.origins[size_t(origin)].where);
  }
  // A number of axes, and who says so.
  struct Claim {
    int rank;
    OriginId by;
    bool at_least = false;
  };
  [[noreturn]] void refuse_ranks(RowId row, Claim a, Claim b, OriginId origin) {
    if (a.rank < b.rank) std::swap(a, b);
    const Origin& op = system_.origins[size_t(origin)];
    auto claim = [&](const Claim& c, const std::string& axes) {
      const bool of_spec = op.call.empty() && op.text.find("=>") != op.text.npos;
      return (c.at_least ? "at least " : "") + (c.rank == 0 ? "none" : std::to_string(c.rank)) + axes + " by " +
             (c.by >= 0 && c.by != origin ? describe(system_.origins[size_t(c.by)])
                                          : (of_spec ? "the spec" : "the operation"));
    };
    const std::string axes =
        " " + std::string(name(system_.rows[size_t(row)].kind)) + (a.rank == 1 ? " axis" : " axes");
    std::string text = "in " + describe(op) + ": " + claim(a, axes) + ", but " + claim(b, "");
    const OriginId owner = system_.rows[size_t(row)].origin;
    if (owner != origin && owner != a.by && owner != b.by) text += "; they meet in " + describe_row(system_, row);
    if (op.call.empty()) text += about_names(op.text);
    if (op.call.empty() && (op.text.find(" * ") != op.text.npos || op.text == "mul"))
      text += ". To apply a linear map write w(x), not w * x";
    throw MisfitError(text + ".", origin, op.where);
  }

  const System& system_;
  std::vector<Node> nodes_;
  std::vector<int> pairs_;  // equations row = A . B
  std::deque<int> queue_;   // joins and pairs to visit
  std::vector<bool> queued_;
  Touched for_computed_, for_leaves_;
  std::vector<int> tentative_;
};

}  // namespace

std::vector<int> solve_ranks(const System& system) { return RankSolver(system).solve(); }

}  // namespace caravan::shape
