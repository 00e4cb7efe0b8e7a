// The second part of inference: sizes and bases, once all ranks are known. First equal axes are united, and the axes of
// size 1 that are broadcast are found as the smallest set that the constraints demand. Then sizes are computed by
// arithmetic, each of them once. Where that determines no further size, rules choose some, all of them at the same
// time.
#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include "caravan/base/error.h"
#include "caravan/shape/ranks.h"
#include "caravan/shape/system.h"

namespace caravan::shape {

namespace {

class AxisSolver {
 public:
  AxisSolver(const System& system, std::vector<int> ranks) : system_(system), ranks_(std::move(ranks)) {}

  Solution solve() {
    allocate();
    unite_equations();
    note_facts();
    unite_single_joins();
    find_ones();
    unite_joins();
    assign_sizes();
    run_arithmetic();
    while (close_results()) run_arithmetic();
    check();
    return result();
  }

 private:
  struct Edge {
    AxisId a, b;
    OriginId origin;
  };
  struct Fact {
    AxisId axis;
    int64_t size;
    OriginId origin;
    std::string basis;
    bool broadcastable;
  };
  struct Class {
    bool sized = false;        // some fact or range gives a size that does not stretch
    bool given = false;        // ... by a fact
    bool stretchable = false;  // written by 0 alone, or known to be so
    bool written = false;
    bool parameter = false;
    int64_t low = 0;    // 1 + the largest fixed index
    int64_t range = 0;  // of static indices
    bool one = false;   // a broadcastable 1
    int64_t size = -1;
    OriginId setter = -1;
    AxisId setter_axis = -1;
    std::string basis;
  };

  // --- union-find ---
  AxisId find(AxisId a) {
    while (parent_[size_t(a)] != a) a = parent_[size_t(a)] = parent_[size_t(parent_[size_t(a)])];
    return a;
  }
  Class& at(AxisId a) { return classes_[size_t(find(a))]; }
  void unite(AxisId a, AxisId b, OriginId origin) {
    if (a == b) return;
    edges_.push_back({a, b, origin});
    AxisId x = find(a), y = find(b);
    if (x == y) return;
    if (count_[size_t(x)] > count_[size_t(y)]) std::swap(x, y);
    parent_[size_t(x)] = y;
    count_[size_t(y)] += count_[size_t(x)];
    Class &small = classes_[size_t(x)], &large = classes_[size_t(y)];
    large.sized = large.sized || small.sized;
    large.given = large.given || small.given;
    large.stretchable = large.stretchable || small.stretchable;
    large.written = large.written || small.written;
    large.parameter = large.parameter || small.parameter;
    large.low = std::max(large.low, small.low);
    large.range = std::max(large.range, small.range);
    large.one = large.one && small.one;
  }

  AxisId new_axis(RowId row) {
    parent_.push_back(AxisId(parent_.size()));
    count_.push_back(1);
    classes_.emplace_back();
    row_of_.push_back(row);
    return AxisId(parent_.size()) - 1;
  }

  void allocate() {
    for (size_t a = 0; a < system_.axes.size(); ++a) new_axis(-1);
    axes_.resize(system_.rows.size());
    for (size_t r = 0; r < axes_.size(); ++r)
      for (int i = 0; i < ranks_[r]; ++i) {
        axes_[r].push_back(new_axis(RowId(r)));
        if (system_.rows[r].owner == Owner::parameter) classes_.back().parameter = true;
      }
  }

  void unite_equations() {
    for (const Equation& e : system_.equations) {
      const std::vector<AxisId>& row = axes_[size_t(e.row)];
      size_t i = 0;
      auto take = [&](const std::vector<AxisId>& list) {
        for (AxisId a : list) unite(row[i++], a, e.origin);
      };
      take(e.before);
      if (e.variable >= 0) take(axes_[size_t(e.variable)]);
      if (e.second >= 0) take(axes_[size_t(e.second)]);
      take(e.after);
    }
    for (const AxisEquality& e : system_.equalities) unite(e.a, e.b, e.origin);
  }

  void note_facts() {
    for (const KnownRow& k : system_.known)
      for (size_t i = 0; i < k.axes.size(); ++i) {
        const Axis& axis = k.axes[i];
        facts_.push_back({axes_[size_t(k.row)][i], axis.size, k.origin, axis.basis, axis.broadcastable});
      }
    for (const SizeFact& s : system_.sizes) facts_.push_back({s.axis, s.size, s.origin, s.basis, false});
    std::stable_sort(facts_.begin(), facts_.end(), [](const Fact& a, const Fact& b) { return a.origin < b.origin; });
    for (const Fact& fact : facts_) {
      if (fact.size < 0) continue;  // a tag alone
      Class& c = at(fact.axis);
      (fact.broadcastable ? c.stretchable : c.given) = true;
    }
    for (const IndexFact& i : system_.indices) {
      Class& c = at(i.axis);
      if (i.range) {
        c.range = std::max(c.range, i.index + 1);
        continue;
      }
      c.low = std::max(c.low, i.index + 1);
      c.written = c.written || i.written;
    }
  }

  // Positions of a join, from the right; calls visit(result axis, operand axes that are present).
  template <class Visit>
  void each_position(Visit&& visit) {
    std::vector<AxisId> present;
    for (const JoinConstraint& join : system_.joins) {
      const auto& result = axes_[size_t(join.result)];
      for (size_t p = 1; p <= result.size(); ++p) {
        present.clear();
        for (RowId r : join.operands)
          if (axes_[size_t(r)].size() >= p) present.push_back(axes_[size_t(r)][axes_[size_t(r)].size() - p]);
        visit(join, result[result.size() - p], present);
      }
    }
  }
  void unite_single_joins() {
    each_position([&](const JoinConstraint& join, AxisId result, const std::vector<AxisId>& present) {
      if (present.size() == 1) unite(result, present[0], join.origin);
    });
  }

  // A class is a broadcastable 1 if it is written by 0, or known to be one, or defined by joins; if nothing gives it a
  // size; and if every operand of every join into it, its own class aside, is one too. The least fixpoint, by counting
  // the operands that are not (yet) ones: so no order of visits matters, and unite_joins never unites a one with
  // another axis.
  void find_ones() {
    std::vector<int> missing(parent_.size(), 0);
    std::vector<bool> joined(parent_.size(), false);
    std::vector<std::vector<AxisId>> users(parent_.size());  // by operand: the results, once per use
    each_position([&](const JoinConstraint&, AxisId result, const std::vector<AxisId>& present) {
      AxisId r = find(result);
      for (AxisId a : present) {
        if (find(a) == r) continue;
        users[size_t(find(a))].push_back(r);
        ++missing[size_t(r)];
        joined[size_t(r)] = true;
      }
    });
    std::vector<AxisId> work;
    auto decide = [&](AxisId a) {
      Class& c = classes_[size_t(a)];
      if (c.one || c.given || c.parameter || c.low > 1 || missing[size_t(a)] > 0) return;
      if (!joined[size_t(a)] && !c.written && !c.stretchable) return;
      c.one = true;
      work.push_back(a);
    };
    for (AxisId a = 0; a < AxisId(parent_.size()); ++a)
      if (find(a) == a) decide(a);
    while (!work.empty()) {
      AxisId a = work.back();
      work.pop_back();
      for (AxisId r : users[size_t(a)]) --missing[size_t(r)], decide(r);
    }
  }

  void unite_joins() {
    each_position([&](const JoinConstraint& join, AxisId result, const std::vector<AxisId>& present) {
      for (AxisId a : present)
        if (!at(a).one) unite(result, a, join.origin);
    });
  }

  // --- sizes ---
  void set(AxisId axis, int64_t size, OriginId origin) {
    Class& c = at(axis);
    if (size < 0 || size > kMaxSize)
      throw ShapeError("in " + describe(system_.origins[size_t(origin)]) + ": " + describe_axis(axis) +
                           " would have the size " + std::to_string(size) + "; an axis has at most 2^40 elements.",
                       system_.origins[size_t(origin)].where);
    if (c.size >= 0) {
      if (c.size != size) refuse_sizes(c.setter_axis, c.size, c.setter, axis, size, origin);
      return;
    }
    c.size = size, c.setter = origin, c.setter_axis = axis;
    for (int rule : rules_of_.empty() ? none_ : rules_of_[size_t(find(axis))]) work_.push_back(rule);
  }

  void assign_sizes() {
    for (const Fact& fact : facts_) {
      if (fact.size >= 0) set(fact.axis, fact.size, fact.origin);
      if (fact.basis.empty()) continue;
      Class& c = at(fact.axis);
      if (!c.basis.empty() && c.basis != fact.basis)
        throw ShapeError("in " + meeting(c.setter_axis, fact.axis, fact.origin) + ": basis `" + c.basis +
                             "` against basis `" + fact.basis + "` (" + describe_axis(fact.axis) +
                             "); axes of different bases do not match, whatever their sizes.",
                         system_.origins[size_t(meeting_origin(c.setter_axis, fact.axis, fact.origin))].where);
      c.basis = fact.basis;
      if (c.setter_axis < 0) c.setter_axis = fact.axis;
    }
    for (const IndexFact& i : system_.indices) {
      Class& c = at(i.axis);
      if (i.written && c.size < 0) set(i.axis, c.low, i.origin);
      if (i.written && c.size != c.low)
        throw ShapeError("in " + describe(system_.origins[size_t(i.origin)]) + ": the axis written at index " +
                             std::to_string(i.index) + " has size " + std::to_string(c.low) +
                             " (one more than the largest index that meets it), not " + std::to_string(c.size) +
                             ", which comes from " + describe_setter(c) + "; they meet in " +
                             meeting(c.setter_axis, i.axis, i.origin) + ".",
                         system_.origins[size_t(i.origin)].where);
    }
    // A join whose operands all stretch gives an axis of size 1.
    each_position([&](const JoinConstraint& join, AxisId result, const std::vector<AxisId>& present) {
      bool all = !present.empty() && std::all_of(present.begin(), present.end(), [&](AxisId a) { return at(a).one; });
      if (all) set(result, 1, join.origin);
    });
  }

  // --- arithmetic ---
  void run_arithmetic() {
    if (rules_of_.empty()) {
      rules_of_.resize(parent_.size());
      for (size_t r = 0; r < system_.arithmetic.size(); ++r) {
        const Arithmetic& rule = system_.arithmetic[r];
        for (AxisId a : variables(rule)) rules_of_[size_t(find(a))].push_back(int(r));
        work_.push_back(int(r));
      }
    }
    while (!work_.empty()) {
      int rule = work_.front();
      work_.pop_front();
      const Arithmetic& arithmetic = system_.arithmetic[size_t(rule)];
      apply(arithmetic);
      bool closes = arithmetic.in_result &&
                    (arithmetic.kind == Arithmetic::Kind::window || arithmetic.kind == Arithmetic::Kind::strided);
      if (closes && size(arithmetic.whole) < 0 && least_result(arithmetic)) ready_.push_back(rule);
    }
  }
  std::vector<AxisId> variables(const Arithmetic& rule) {
    std::vector<AxisId> out = {rule.whole};
    for (AxisId a : rule.parts)
      if (a >= 0) out.push_back(a);
    if (rule.row >= 0) out.insert(out.end(), axes_[size_t(rule.row)].begin(), axes_[size_t(rule.row)].end());
    return out;
  }
  int64_t size(AxisId a) { return at(a).size; }

  void apply(const Arithmetic& rule) {
    switch (rule.kind) {
      case Arithmetic::Kind::window: return rule.in_result ? check_result_window(rule) : apply_window(rule);
      case Arithmetic::Kind::strided: return apply_strided(rule);
      case Arithmetic::Kind::sum: return apply_sum(rule);
      case Arithmetic::Kind::product: return apply_product(rule, rule.parts);
      case Arithmetic::Kind::row_product: return apply_product(rule, axes_[size_t(rule.row)]);
    }
  }

  [[noreturn]] void refuse(const Arithmetic& rule, const std::string& problem) {
    const Origin& origin = system_.origins[size_t(rule.origin)];
    const std::string axis = origin.call.empty() ? ", axis `" + system_.axes[size_t(rule.whole)].first + "`" : "";
    throw MisfitError("in " + describe(origin) + axis + ": " + problem, rule.origin, origin.where);
  }

  // valid: out = floor((in + 2P - offset - (d(k-1)+1)) / s) + 1;  same: out = ceil(in / s)
  void apply_window(const Arithmetic& rule) {
    AxisId out = rule.parts[0], kernel = rule.parts[1];
    int64_t in = size(rule.whole), n = size(out), k = size(kernel);
    bool same = rule.padding == Padding::same;
    if (in >= 0 && (same || k >= 0)) {
      int64_t room = in + 2 * rule.pad - rule.offset - (rule.dilation * (k - 1) + 1);
      int64_t expected = same ? (in + rule.stride - 1) / rule.stride : room < 0 ? 0 : room / rule.stride + 1;
      if (expected < 1)
        refuse(rule, "a window of " + std::to_string(rule.dilation * (k - 1) + 1) + " (kernel " + std::to_string(k) +
                         ", dilation " + std::to_string(rule.dilation) + ") does not fit into " + std::to_string(in) +
                         (rule.pad ? " padded by " + std::to_string(rule.pad) : "") +
                         (rule.offset ? " from offset " + std::to_string(rule.offset) : "") + ".");
      if (n >= 0 && n != expected)
        refuse(rule, "size " + std::to_string(in) + (same ? "" : ", kernel " + std::to_string(k)) + " and stride " +
                         std::to_string(rule.stride) + " give " + std::to_string(expected) + " positions for `" +
                         system_.axes[size_t(out)].first + "`, which is " + std::to_string(n) + " (" +
                         describe_setter(at(out)) + ").");
      return set(out, expected, rule.origin);
    }
    if (rule.stride != 1 || n < 0) return;
    if (same) return set(rule.whole, n, rule.origin);
    if (k >= 0) {
      int64_t least = n + rule.offset - 2 * rule.pad + rule.dilation * (k - 1);
      if (least < 1)
        refuse(rule, "nothing of the window is left: the axis would have the size " + std::to_string(least) + ".");
      return set(rule.whole, least, rule.origin);
    }
    if (in < 0) return;
    int64_t reach = in + 2 * rule.pad - rule.offset - n;  // = d(k-1)
    if (reach < 0 || reach % rule.dilation != 0)
      refuse(rule, "no kernel of dilation " + std::to_string(rule.dilation) + " has " + std::to_string(n) +
                       " positions on " + std::to_string(in) + ".");
    set(kernel, reach / rule.dilation + 1, rule.origin);
  }
  std::optional<int64_t> least_result(const Arithmetic& rule) {
    int64_t n = size(rule.parts[0]);
    if (n < 0) return std::nullopt;
    if (rule.kind == Arithmetic::Kind::strided) return rule.stride * (n - 1) + rule.offset + 1;
    if (rule.padding == Padding::same) return rule.stride * (n - 1) + 1;
    int64_t k = size(rule.parts[1]);
    if (k < 0) return std::nullopt;
    return rule.stride * (n - 1) + rule.dilation * (k - 1) + 1 + rule.offset - 2 * rule.pad;
  }
  void check_result_window(const Arithmetic& rule) {
    auto least = least_result(rule);
    if (!least) return;
    if (*least < 1) refuse(rule, "nothing of the window is left (its size would be " + std::to_string(*least) + ").");
    if (size(rule.whole) >= 0 && size(rule.whole) < *least)
      refuse(rule, "needs at least " + std::to_string(*least) + " positions, but the axis has " +
                       std::to_string(size(rule.whole)) + " (" + describe_setter(at(rule.whole)) + ").");
  }
  void apply_strided(const Arithmetic& rule) {
    if (rule.in_result) return check_result_window(rule);
    int64_t in = size(rule.whole), n = size(rule.parts[0]);
    if (in >= 0) {
      int64_t expected = in <= rule.offset ? 0 : (in - rule.offset + rule.stride - 1) / rule.stride;
      if (expected < 1)
        refuse(rule,
               "offset " + std::to_string(rule.offset) + " is beyond the axis of size " + std::to_string(in) + ".");
      return set(rule.parts[0], expected, rule.origin);
    }
    if (rule.stride == 1 && n >= 0) set(rule.whole, n + rule.offset, rule.origin);
  }
  void apply_sum(const Arithmetic& rule) {
    int64_t total = 0;
    AxisId unknown = -1;
    int open = 0;
    for (size_t i = 0; i < rule.parts.size(); ++i) {
      int64_t part = rule.parts[i] < 0 ? rule.runs[i] : size(rule.parts[i]);
      if (part < 0)
        ++open, unknown = rule.parts[i];
      else
        total += part;
    }
    int64_t whole = size(rule.whole);
    if (open == 0 && whole < 0) return set(rule.whole, total, rule.origin);
    if (whole >= 0 && (total > whole || (open > 0 && total == whole)))
      refuse(rule, "parts of the concatenation are longer than the whole: " + std::to_string(total) +
                       (open ? " and more" : "") + " against " + std::to_string(whole) + " (" +
                       describe_setter(at(rule.whole)) + ").");
    if (open == 0 && total != whole)
      refuse(rule, "the parts of the concatenation are " + std::to_string(total) + " together, the whole is " +
                       std::to_string(whole) + " (" + describe_setter(at(rule.whole)) + ").");
    if (open == 1 && whole >= 0) set(unknown, whole - total, rule.origin);
  }
  void apply_product(const Arithmetic& rule, const std::vector<AxisId>& parts) {
    int64_t product = rule.factor;
    AxisId unknown = -1;
    int open = 0;
    for (AxisId a : parts) {
      if (size(a) < 0)
        ++open, unknown = a;
      else if (__builtin_mul_overflow(product, size(a), &product))
        refuse(rule, "the product of its factors is too large to be a size.");
    }
    int64_t whole = size(rule.whole);
    if (open == 0) {
      if (whole >= 0 && whole != product)
        refuse(rule, "the factors give " + std::to_string(product) + ", the size is " + std::to_string(whole) + " (" +
                         describe_setter(at(rule.whole)) + ").");
      return set(rule.whole, product, rule.origin);
    }
    if (whole < 0 || open > 1) return;
    if (product == 0 || whole % product != 0)
      refuse(rule, "the factor " + std::to_string(product) + " does not divide " + std::to_string(whole) + " (" +
                       describe_setter(at(rule.whole)) + ").");
    set(unknown, whole / product, rule.origin);
  }
  // Chooses sizes that arithmetic does not determine, all at the same time. Axes written by windows and strides take
  // the least size that is accepted (a static index may ask for more). If there are none, sliced axes to which nothing
  // else gives a size take the range of their index.
  bool close_results() {
    std::map<AxisId, std::pair<int64_t, OriginId>> wanted;
    for (int r : ready_) {
      const Arithmetic& rule = system_.arithmetic[size_t(r)];
      if (size(rule.whole) >= 0) continue;
      int64_t least = std::max(*least_result(rule), at(rule.whole).range);
      auto [at, added] = wanted.try_emplace(find(rule.whole), least, rule.origin);
      if (!added && at->second.first < least) at->second = {least, rule.origin};
    }
    ready_.clear();
    if (wanted.empty())
      for (const IndexFact& i : system_.indices)
        if (i.range && size(i.axis) < 0) wanted.try_emplace(find(i.axis), at(i.axis).range, i.origin);
    for (auto& [axis, size] : wanted) set(axis, size.first, size.second);
    return !wanted.empty();
  }

  // --- checks ---
  void check() {
    for (const IndexFact& i : system_.indices) {
      int64_t n = size(i.axis);
      if (n < 0 || i.index < n) continue;
      const Origin& origin = system_.origins[size_t(i.origin)];
      const std::string op = describe(origin);
      if (i.range)
        throw MisfitError("in " + op + ": the index has the range " + std::to_string(i.index + 1) +
                              ", but the sliced axis has size " + std::to_string(n) + " (" +
                              describe_setter(at(i.axis)) + ").",
                          i.origin, origin.where);
      throw MisfitError("in " + op + ": the fixed index " + std::to_string(i.index) + " is beyond the axis of size " +
                            std::to_string(n) + " (" + describe_setter(at(i.axis)) + ").",
                        i.origin, origin.where);
    }
    std::string parameters;
    Source first;  // of them
    std::set<std::pair<OriginId, RowKind>> seen;
    for (size_t r = 0; r < axes_.size(); ++r) {
      const RowInfo& info = system_.rows[r];
      if (info.owner != Owner::parameter) continue;
      for (AxisId a : axes_[r])
        if (size(a) < 0 && seen.insert({info.origin, info.kind}).second) {
          const Origin& origin = system_.origins[size_t(info.origin)];
          std::string kind(name(info.kind));
          parameters += (parameters.empty() ? "" : "\n") +
                        ("parameter `" + origin.text + "`: its " + kind + " axis is not determined; give `." + kind +
                         " = {n}` here" + where_text(origin.where));
          if (!first.known()) first = origin.where;
        }
    }
    if (!parameters.empty()) throw ShapeError(parameters, first);
    for (size_t a = 0; a < system_.axes.size(); ++a)
      if (size(AxisId(a)) < 0) {
        const auto& [axis_name, origin] = system_.axes[a];
        throw UnsizedAxisError("in " + describe(system_.origins[size_t(origin)]) + ": the size of " +
                                   (axis_name.empty() ? "an axis" : "`" + axis_name + "`") + " is not determined",
                               axis_name.empty() ? "n" : axis_name, origin, system_.origins[size_t(origin)].where);
      }
    for (size_t r = 0; r < axes_.size(); ++r)
      for (AxisId a : axes_[r])
        if (size(a) < 0)
          throw ShapeError("the size of " + describe_axis(a) + " is not determined; give it where the tensor is made.",
                           origin_of(a).where);
  }

  Solution result() {
    Solution out;
    std::vector<int> number(parent_.size(), -1);
    auto class_of = [&](AxisId a) {
      AxisId root = find(a);
      if (number[size_t(root)] < 0) {
        number[size_t(root)] = int(out.classes.size());
        const Class& c = classes_[size_t(root)];
        out.classes.push_back({c.size, c.basis, c.one});
      }
      return number[size_t(root)];
    };
    for (size_t a = 0; a < system_.axes.size(); ++a) out.axis_class.push_back(class_of(AxisId(a)));
    out.row_axes.resize(axes_.size());
    for (size_t r = 0; r < axes_.size(); ++r)
      for (AxisId a : axes_[r]) out.row_axes[r].push_back(class_of(a));
    return out;
  }

  // --- messages ---
  const Origin& origin_of(AxisId a) const {
    const RowId row = row_of_[size_t(a)];
    return system_.origins[size_t(row < 0 ? system_.axes[size_t(a)].second : system_.rows[size_t(row)].origin)];
  }
  std::string describe_axis(AxisId a) {
    const std::string of = " of " + describe(origin_of(a));
    const RowId row = row_of_[size_t(a)];
    if (row < 0) return "axis `" + system_.axes[size_t(a)].first + "`" + of;
    const auto& list = axes_[size_t(row)];
    auto position = std::find(list.begin(), list.end(), a) - list.begin() + 1;
    return std::string(name(system_.rows[size_t(row)].kind)) + " axis " + std::to_string(position) + of;
  }
  std::string describe_setter(const Class& c) {
    if (c.setter_axis >= 0 && row_of_[size_t(c.setter_axis)] >= 0) return describe_axis(c.setter_axis);
    return c.setter < 0 ? "nothing" : describe(system_.origins[size_t(c.setter)]);
  }
  // The shortest chain of equations between two axes, as the edges taken.
  std::vector<Edge> path(AxisId from, AxisId to) {
    std::map<AxisId, std::vector<int>> touching;
    for (size_t e = 0; e < edges_.size(); ++e)
      touching[edges_[e].a].push_back(int(e)), touching[edges_[e].b].push_back(int(e));
    std::map<AxisId, int> came;
    std::deque<AxisId> queue = {from};
    came[from] = -1;
    while (!queue.empty() && !came.count(to)) {
      AxisId a = queue.front();
      queue.pop_front();
      for (int e : touching[a]) {
        AxisId b = edges_[size_t(e)].a == a ? edges_[size_t(e)].b : edges_[size_t(e)].a;
        if (came.emplace(b, e).second) queue.push_back(b);
      }
    }
    std::vector<Edge> out;
    for (AxisId a = to; came.count(a) && came[a] >= 0;) {
      const Edge& edge = edges_[size_t(came[a])];
      out.push_back(edge);
      a = edge.a == a ? edge.b : edge.a;
    }
    return out;
  }
  // The operation in which two axes meet: the latest on the chain between them.
  OriginId meeting_origin(AxisId a, AxisId b, OriginId fallback) {
    OriginId latest = -1;
    for (const Edge& edge : path(a, b)) latest = std::max(latest, edge.origin);
    return latest < 0 ? fallback : latest;
  }
  std::string meeting(AxisId a, AxisId b, OriginId fallback) {
    return describe(system_.origins[size_t(meeting_origin(a, b, fallback))]);
  }
  // Does the tensor whose axis this is have input axes?
  bool of_linear_map(AxisId a) {
    RowId row = row_of_[size_t(a)];
    for (RowId r = std::max(0, row - 2); row >= 0 && r < std::min(row + 3, RowId(axes_.size())); ++r)
      if (system_.rows[size_t(r)].origin == system_.rows[size_t(row)].origin &&
          system_.rows[size_t(r)].kind == RowKind::input && !axes_[size_t(r)].empty())
        return true;
    return false;
  }
  [[noreturn]] void refuse_sizes(AxisId a, int64_t size_a, OriginId from_a, AxisId b, int64_t size_b, OriginId from_b) {
    std::string axis;
    for (const Edge& edge : path(a, b))
      for (AxisId e : {edge.a, edge.b})
        if (axis.empty() && row_of_[size_t(e)] < 0 && !system_.axes[size_t(e)].first.empty() &&
            system_.axes[size_t(e)].first != "_")
          axis = system_.axes[size_t(e)].first;
    auto side = [&](AxisId x, int64_t size, OriginId from) {
      std::string text = std::to_string(size) + " for " + describe_axis(x);
      bool own = row_of_[size_t(x)] >= 0 && system_.rows[size_t(row_of_[size_t(x)])].origin == from;
      return own || (row_of_[size_t(x)] < 0 && system_.axes[size_t(x)].second == from)
                 ? text
                 : text + " by " + describe(system_.origins[size_t(from)]);
    };
    std::string text = "sizes do not match in " + meeting(a, b, from_b) + ": " +
                       (axis.empty() ? "an axis" : "axis `" + axis + "`") + " is " + side(a, size_a, from_a) +
                       ", but " + side(b, size_b, from_b) + ".";
    if (size_a == 1 || size_b == 1)
      text += " An axis of 1 that was given is not broadcast; one that a spec keeps, by `0` in its result, is.";
    const OriginId met = meeting_origin(a, b, from_b);
    const Origin& op = system_.origins[size_t(met)];
    if (op.call.empty() && op.text.find(" * ") != op.text.npos && (of_linear_map(a) || of_linear_map(b)))
      text += " To apply a linear map write w(x), not w * x.";
    // What the Context knows has no line.
    throw MisfitError(text, met, op.where.known() ? op.where : origin_of(a).where);
  }

  const System& system_;
  std::vector<int> ranks_;
  std::vector<AxisId> parent_;
  std::vector<int> count_;
  std::vector<Class> classes_;
  std::vector<RowId> row_of_;              // of an axis; -1 for declared axes
  std::vector<std::vector<AxisId>> axes_;  // by row
  std::vector<Edge> edges_;
  std::vector<Fact> facts_;
  std::vector<std::vector<int>> rules_of_;  // arithmetic by class
  std::vector<int> none_;
  std::deque<int> work_;
  std::vector<int> ready_;  // written windows and strides whose least size is known
};

}  // namespace

Solution solve(const System& system) { return AxisSolver(system, solve_ranks(system)).solve(); }

}  // namespace caravan::shape
