#include "caravan/shape/relation.h"

#include <algorithm>
#include <functional>
#include <map>

#include "caravan/base/error.h"
#include "caravan/base/names.h"

namespace caravan::shape {

void refuse_spec(std::string_view text, int column, const char* problem) {
  throw SpecError("spec error" + where_text(Source::call()) + ": " + problem + ", at column " + std::to_string(column) +
                      "\n  " + std::string(text) + "\n  " + std::string(size_t(column) - 1, ' ') + "^",
                  Source::call());
}

std::string unnamed_row(RowKind kind) { return "..." + std::string(name(kind)); }

namespace {

// Builds a Relation from the syntax of a spec; names become numbers in the order of their first appearance,
// the result's first.
class SpecReader {
 public:
  SpecReader(const SpecSyntax& spec, const std::vector<Binding>& bindings, SpecUse use, Source where)
      : spec_(spec), bindings_(bindings), use_(use), where_(where) {
    out_.text = std::string(spec.text);
  }

  Relation read() {
    for (const Binding& binding : bindings_)
      if (auto* number = std::get_if<int64_t>(&binding.value)) numbers_[binding.name] = *number;
    out_.slots.resize(spec_.shapes.size());
    out_.result = spec_.operands();
    read_shape(out_.result);  // first, so that the result's iterators run outermost
    for (int s = 0; s < spec_.operands(); ++s) read_shape(s);
    for (const Binding& binding : bindings_) bind(binding);
    find_clauses();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw SpecError("spec \"" + out_.text + "\"" + where_text(where_) + ": " + problem, where_);
  }

  IteratorId iterator(std::string_view name) {
    auto [at, added] = iterators_.try_emplace(std::string(name), int(out_.iterators.size()));
    if (added) new_iterator(std::string(name));
    return at->second;
  }
  IteratorId new_iterator(std::string name) {
    out_.order.push_back({false, int(out_.iterators.size())});
    out_.iterators.push_back(std::move(name));
    return int(out_.iterators.size()) - 1;
  }
  RowVariableId row_variable(std::string_view name, RowKind kind) {
    std::string key = name.empty() ? unnamed_row(kind) : std::string(name);
    auto [at, added] = row_variables_.try_emplace(key, int(out_.row_variables.size()));
    if (added) {
      out_.order.push_back({true, int(out_.row_variables.size())});
      out_.row_variables.push_back({name.empty() ? "..." : std::string(name), kind});
    }
    return at->second;
  }

  int64_t value_of(const Count& count, const char* what, int64_t least) {
    int64_t value = count.number;
    if (!count.name.empty()) {
      auto at = numbers_.find(std::string(count.name));
      if (at == numbers_.end())
        refuse("`" + std::string(count.name) + "` is a " + what + " and needs a value: add {\"" +
               std::string(count.name) + "\", n}.");
      value = at->second;
      used_as_number_.push_back(std::string(count.name));
    }
    if (value < least || value > kMaxStep)
      refuse(std::string("a ") + what + " of " + std::to_string(value) + " is too " +
             (value < least ? "small." : "large."));
    return value;
  }

  void read_shape(int slot) {
    for (RowKind kind : kRowKinds) {
      const RowSyntax& row = spec_.shapes[size_t(slot)].rows[int(kind)];
      RowPattern& pattern = out_.slots[size_t(slot)][kind];
      for (const AxisSyntax& axis : spec_.before(row)) pattern.before.push_back(read_axis(axis));
      if (row.open) pattern.variable = row_variable(row.variable, kind);
      for (const AxisSyntax& axis : spec_.after(row)) pattern.after.push_back(read_axis(axis));
    }
  }

  AxisPattern read_axis(const AxisSyntax& axis) {
    using Kind = AxisPattern::Kind;
    AxisPattern out;
    switch (axis.kind) {
      case AxisSyntax::Kind::name: out.kind = Kind::iterator; break;
      case AxisSyntax::Kind::index: out.kind = Kind::fixed, out.index = axis.numbers[0]; break;
      case AxisSyntax::Kind::anonymous: out.kind = Kind::iterator, out.iterators = {new_iterator("_")}; break;
      case AxisSyntax::Kind::reversed: out.kind = Kind::reversed; break;
      case AxisSyntax::Kind::strided: out.kind = Kind::strided; break;
      case AxisSyntax::Kind::window: out.kind = Kind::window; break;
      case AxisSyntax::Kind::parts: out.kind = Kind::parts; break;
      case AxisSyntax::Kind::merged: out.kind = Kind::merged; break;
    }
    for (int i = 0; i < axis.count; ++i) {
      if (axis.kind == AxisSyntax::Kind::index) continue;
      out.iterators.push_back(axis.names[i].empty() ? -1 : iterator(axis.names[i]));
      out.runs.push_back(axis.numbers[i]);
    }
    out.stride = value_of(axis.stride, "stride", 1);
    out.dilation = value_of(axis.dilation, "dilation", 1);
    out.padding = axis.padding;
    out.offset = axis.offset;
    if (axis.padding == Padding::given) out.pad = value_of(axis.pad, "padding", 0);
    return out;
  }

  std::optional<SizeOf> find(const std::string& name) const {
    if (auto at = iterators_.find(name); at != iterators_.end()) return SizeOf{false, at->second};
    if (auto at = row_variables_.find(name); at != row_variables_.end()) return SizeOf{true, at->second};
    return std::nullopt;
  }
  SizeOf find_or_refuse(const std::string& name) const {
    if (auto found = find(name)) return *found;
    std::vector<std::string> known;
    for (const auto& [axis, id] : iterators_) known.push_back(axis);
    for (const auto& [variable, id] : row_variables_) known.push_back(variable);
    const std::string meant = nearest(name, known);
    refuse("`" + name + "` is bound or captured but does not stand in the spec" +
           (meant.empty() ? "." : "; did you mean `" + meant + "`?"));
  }

  void bind(const Binding& binding) {
    if (std::holds_alternative<std::monostate>(binding.value)) return read_condition(binding.name);
    bool number = std::find(used_as_number_.begin(), used_as_number_.end(), binding.name) != used_as_number_.end();
    if (number && find(binding.name))
      refuse("`" + binding.name + "` is used as an axis and as a stride, dilation or padding.");
    if (number) return;
    SizeRule rule{find_or_refuse(binding.name), 1, int64_t(0)};
    if (auto* size = std::get_if<int64_t>(&binding.value)) {
      if (*size < 1) refuse("`" + binding.name + "` is bound to " + std::to_string(*size) + "; a size is at least 1.");
      rule.value = *size;
    } else if (auto* dim = std::get_if<DimRef>(&binding.value)) {
      rule.value = *dim;
    } else if (auto* same = std::get_if<SameAs>(&binding.value)) {
      rule.value = find_or_refuse(same->name);
    } else if (auto* multiple = std::get_if<Multiple>(&binding.value)) {
      if (multiple->factor < 1)
        refuse("the factor of `" + binding.name + "` is " + std::to_string(multiple->factor) +
               "; it must be at least 1.");
      rule.factor = multiple->factor;
      if (auto* of = std::get_if<std::string>(&multiple->of))
        rule.value = find_or_refuse(*of);
      else
        rule.value = std::get<DimRef>(multiple->of);
    }
    out_.sizes.push_back(rule);
  }

  // sum (<|<=|>|>=|==) sum, where a sum is made of INT, NAME and INT*NAME with + and -.
  void read_condition(const std::string& text) {
    auto bad = [&](const std::string& why) {
      refuse("the condition \"" + text + "\" " + why + "; write it like \"j <= i\" or \"i + 2*k < 5\".");
    };
    size_t at = text.find_first_of("<>=");
    if (at == text.npos) bad("has no comparison");
    std::string op = text.substr(at, at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1);
    auto side = [&](std::string_view part) {
      Inequality sum;
      size_t i = 0;
      auto blank = [&] {
        while (i < part.size() && part[i] == ' ') ++i;
      };
      for (bool first = true;; first = false) {
        blank();
        if (i == part.size()) {
          if (first) bad("has an empty side");
          return sum;
        }
        int64_t sign = 1;
        if (part[i] == '+' || part[i] == '-')
          sign = part[i++] == '-' ? -1 : 1;
        else if (!first)
          bad("is not a sum");
        blank();
        int64_t factor = 1;
        bool number = i < part.size() && isdigit(uint8_t(part[i]));
        if (number) {
          for (factor = 0; i < part.size() && isdigit(uint8_t(part[i])); ++i) {
            factor = factor * 10 + (part[i] - '0');
            if (factor > kMaxSize) bad("has a number that is too large");
          }
          blank();
        }
        if (number && (i == part.size() || part[i] != '*')) {
          sum.constant += sign * factor;
          continue;
        }
        if (number) ++i, blank();
        size_t from = i;
        while (i < part.size() && (isalnum(uint8_t(part[i])) || part[i] == '_')) ++i;
        std::string name(part.substr(from, i - from));
        auto found = name.empty() ? std::nullopt : find(name);
        if (!found || found->row) bad("names `" + name + "`, which is not an axis of the spec");
        sum.parts.push_back({found->which, sign * factor});
      }
    };
    Inequality left = side(std::string_view(text).substr(0, at));
    Inequality right = side(std::string_view(text).substr(at + op.size()));
    auto add = [&](const Inequality& low, const Inequality& high, int64_t slack) {  // high - low - slack >= 0
      Inequality out{high.constant - low.constant - slack, high.parts, text};
      for (auto [which, coefficient] : low.parts) out.parts.push_back({which, -coefficient});
      out_.where_.push_back(out);
    };
    if (op == "<")
      add(left, right, 1);
    else if (op == "<=")
      add(left, right, 0);
    else if (op == ">")
      add(right, left, 1);
    else if (op == ">=")
      add(right, left, 0);
    else if (op == "==")
      add(left, right, 0), add(right, left, 0);
    else
      bad("has no comparison");
  }

  // Does the result put one operand behind another, as concat does?
  bool joins_operands() const {
    if (spec_.operands() < 2) return false;
    auto is_parts = [](const AxisSyntax& axis) { return axis.kind == AxisSyntax::Kind::parts; };
    return std::any_of(std::begin(spec_.result().rows), std::end(spec_.result().rows), [&](const RowSyntax& row) {
      return std::ranges::any_of(spec_.before(row), is_parts) || std::ranges::any_of(spec_.after(row), is_parts);
    });
  }

  // A clause chooses one named part of every concatenation in its slots. A part's iterator is active iff it is chosen
  // wherever it stands as a part; the choice is possible iff every other axis uses active iterators only.
  void find_clauses() {
    if (use_ == SpecUse::product) {
      std::vector<bool> all(out_.slots.size(), true);
      add_clauses(all, -1);
      if (out_.clauses.empty())
        refuse(joins_operands() ? "its operands would be multiplied; to put one behind the other, write concat(\"" +
                                      out_.text + "\", ..)."
                                : "no part of the concatenation reaches the result.");
      return;
    }
    for (int operand = 0; operand < out_.result; ++operand) {
      std::vector<bool> slots(out_.slots.size(), false);
      slots[size_t(operand)] = slots[size_t(out_.result)] = true;
      size_t before = out_.clauses.size();
      add_clauses(slots, operand);
      if (out_.clauses.size() != before + 1)
        refuse("operand " + std::to_string(operand + 1) +
               " must be exactly one part of the result's concatenation (`a; b => a^b`).");
    }
  }

  void add_clauses(const std::vector<bool>& slots, int operand) {
    std::vector<const AxisPattern*> parts, others;
    for (size_t s = 0; s < slots.size(); ++s)
      if (slots[s])
        for (const RowPattern& row : out_.slots[s].rows)
          for (auto* axes : {&row.before, &row.after})
            for (const AxisPattern& axis : *axes)
              (axis.kind == AxisPattern::Kind::parts ? parts : others).push_back(&axis);
    std::vector<bool> is_part(out_.iterators.size(), false), present(out_.iterators.size(), false);
    for (const AxisPattern* axis : parts)
      for (IteratorId i : axis->iterators)
        if (i >= 0) is_part[size_t(i)] = present[size_t(i)] = true;
    for (const AxisPattern* axis : others)
      for (IteratorId i : axis->iterators) present[size_t(i)] = true;

    std::vector<IteratorId> chosen(parts.size(), -1);
    auto accept = [&] {
      std::vector<bool> active(out_.iterators.size());
      for (size_t i = 0; i < active.size(); ++i) active[i] = present[i];
      for (size_t p = 0; p < parts.size(); ++p)
        for (IteratorId i : parts[p]->iterators)
          if (i >= 0 && i != chosen[p]) active[size_t(i)] = false;
      for (IteratorId i : chosen)
        if (!active[size_t(i)]) return;
      for (const AxisPattern* axis : others)
        for (IteratorId i : axis->iterators)
          if (!active[size_t(i)]) return;
      if (operand >= 0)  // a concatenation: the chosen part is the operand's own
        for (IteratorId i : chosen)
          if (!mentions(out_.slots[size_t(operand)], i)) return;
      out_.clauses.push_back({active, slots});
    };
    std::function<void(size_t)> choose = [&](size_t p) {
      if (out_.clauses.size() > 256) refuse("too many parts in its concatenations.");
      if (p == parts.size()) return accept();
      for (IteratorId i : parts[p]->iterators)
        if (i >= 0) chosen[p] = i, choose(p + 1);
    };
    choose(0);
  }

  static bool mentions(const SlotPattern& slot, IteratorId i) {
    for (const RowPattern& row : slot.rows)
      for (auto* axes : {&row.before, &row.after})
        for (const AxisPattern& axis : *axes)
          if (std::find(axis.iterators.begin(), axis.iterators.end(), i) != axis.iterators.end()) return true;
    return false;
  }

  const SpecSyntax& spec_;
  const std::vector<Binding>& bindings_;
  SpecUse use_;
  Source where_;
  Relation out_;
  std::map<std::string, IteratorId> iterators_;
  std::map<std::string, RowVariableId> row_variables_;
  std::map<std::string, int64_t> numbers_;
  std::vector<std::string> used_as_number_;
};

// For the relations that are not specs: rows are single variables.
struct RelationBuilder {
  Relation out;

  explicit RelationBuilder(int slots) {
    out.slots.resize(size_t(slots));
    out.result = slots - 1;
  }
  RowVariableId variable(RowKind kind, bool iterated, const char* name = "...") {
    int id = int(out.row_variables.size());
    out.row_variables.push_back({name, kind});
    if (iterated) out.order.push_back({true, id});
    return id;
  }
  RelationRef finish() {
    if (out.clauses.empty())
      out.clauses.push_back({std::vector<bool>(out.iterators.size(), true), std::vector<bool>(out.slots.size(), true)});
    return std::make_shared<const Relation>(std::move(out));
  }
};

}  // namespace

RelationRef relation_of(const SpecSyntax& spec, const std::vector<Binding>& bindings, SpecUse use, Source where) {
  return std::make_shared<const Relation>(SpecReader(spec, bindings, use, where).read());
}

RelationRef pointwise_relation(int operands) {
  RelationBuilder b(operands + 1);
  b.out.pointwise = true;
  for (RowKind kind : kMemoryOrder) {
    Join join{b.variable(kind, true), {}, {}, kind};
    b.out.slots[size_t(operands)][kind].variable = join.result;
    for (int s = 0; s < operands; ++s) {
      RowVariableId v = b.variable(kind, false);
      join.operands.push_back(v), join.slots.push_back(s);
      b.out.slots[size_t(s)][kind].variable = v;
    }
    b.out.joins.push_back(join);
  }
  return b.finish();
}

RelationRef apply_relation() {
  RelationBuilder b(3);
  b.out.apply = true;
  SlotPattern &w = b.out.slots[0], &x = b.out.slots[1], &c = b.out.slots[2];
  Join join{b.variable(RowKind::batch, true), {}, {0, 1}, RowKind::batch};
  join.operands = {b.variable(RowKind::batch, false), b.variable(RowKind::batch, false)};
  c[RowKind::batch].variable = join.result;
  w[RowKind::batch].variable = join.operands[0];
  x[RowKind::batch].variable = join.operands[1];
  b.out.joins.push_back(join);
  w[RowKind::output].variable = c[RowKind::output].variable = b.variable(RowKind::output, true);
  x[RowKind::input].variable = c[RowKind::input].variable = b.variable(RowKind::input, true);
  w[RowKind::input].variable = x[RowKind::output].variable = b.variable(RowKind::output, true, "k");
  return b.finish();
}

RelationRef slice_relation(SymbolRef index) {
  RelationBuilder b(2);
  for (RowKind kind : kMemoryOrder)
    b.out.slots[0][kind].variable = b.out.slots[1][kind].variable = b.variable(kind, true);
  AxisPattern axis;
  axis.kind = AxisPattern::Kind::symbol;
  axis.symbol = std::move(index);
  b.out.slots[0][RowKind::batch].before.push_back(axis);
  return b.finish();
}

RelationRef stack_relation(int operands, RowKind kind) {
  RelationBuilder b(operands + 1);
  for (RowKind k : kMemoryOrder) {
    RowVariableId v = b.variable(k, true);
    for (SlotPattern& slot : b.out.slots) slot[k].variable = v;
  }
  // The new axis is a concatenation of runs: operand s writes position s of `operands`.
  for (int s = 0; s < operands; ++s) b.out.iterators.push_back("part" + std::to_string(s));
  AxisPattern axis;
  axis.kind = AxisPattern::Kind::parts;
  for (int s = 0; s < operands; ++s) {
    axis.iterators.push_back(s), axis.runs.push_back(0);
    b.out.order.push_back({false, s});
    b.out.sizes.push_back({{false, s}, 1, int64_t(1)});
    Clause clause{std::vector<bool>(size_t(operands), false), std::vector<bool>(size_t(operands) + 1, false)};
    clause.iterators[size_t(s)] = clause.slots[size_t(s)] = clause.slots[size_t(operands)] = true;
    b.out.clauses.push_back(clause);
  }
  b.out.slots[size_t(operands)][kind].before.push_back(axis);
  return b.finish();
}

RelationRef gather_relation(int64_t size, RowKind chosen) {
  RelationBuilder b(3);
  SlotPattern &table = b.out.slots[0], &ids = b.out.slots[1], &c = b.out.slots[2];
  ids[RowKind::batch].variable = c[RowKind::batch].variable = b.variable(RowKind::batch, true);
  ids[RowKind::output].variable = c[RowKind::output].variable = b.variable(RowKind::output, true);
  table[RowKind::output].variable = c[RowKind::output].second = b.variable(RowKind::output, true, "d");
  ids[RowKind::input].variable = c[RowKind::input].variable = b.variable(RowKind::input, true);
  AxisPattern axis;
  axis.kind = AxisPattern::Kind::gathered;
  axis.slot = 1;
  axis.index = size;
  table[chosen].before.push_back(axis);
  return b.finish();
}

RelationRef same_relation(int operands) {
  RelationBuilder b(operands + 1);
  for (RowKind kind : kMemoryOrder) {
    RowVariableId v = b.variable(kind, true);
    for (SlotPattern& slot : b.out.slots) slot[kind].variable = v;
  }
  return b.finish();
}

}  // namespace caravan::shape
