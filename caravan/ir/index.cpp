#include "caravan/ir/index.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "caravan/base/error.h"

namespace caravan::ir {

bool Term::has_load() const {
  return std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.kind == Part::Kind::load; });
}

bool Term::mentions(int iterator) const {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const Part& part) { return part.kind == Part::Kind::iterator && part.which == iterator; });
}

Term& Term::add(Part::Kind kind, int which, int64_t coefficient) {
  auto before = [](const Part& a, const Part& b) { return std::tie(a.kind, a.which) < std::tie(b.kind, b.which); };
  const Part part{kind, which, coefficient};
  auto at = std::lower_bound(parts.begin(), parts.end(), part, before);
  if (at == parts.end() || before(part, *at)) {
    if (coefficient != 0) parts.insert(at, part);
  } else if ((at->coefficient += coefficient) == 0) {
    parts.erase(at);
  }
  return *this;
}

Term Term::iterator(int which, int64_t coefficient) { return Term{}.add(Part::Kind::iterator, which, coefficient); }
Term Term::symbol(int which, int64_t coefficient) { return Term{}.add(Part::Kind::symbol, which, coefficient); }
Term Term::load(int operand, int64_t coefficient) { return Term{}.add(Part::Kind::load, operand, coefficient); }

Term operator+(const Term& a, const Term& b) {
  Term sum = a;
  sum.constant += b.constant;
  for (const Term::Part& part : b.parts) sum.add(part.kind, part.which, part.coefficient);
  return sum;
}

Term operator*(const Term& a, int64_t factor) {
  if (factor == 0) return Term{};
  Term product = a;
  product.constant *= factor;
  for (Term::Part& part : product.parts) part.coefficient *= factor;
  return product;
}

Term operator-(const Term& a, const Term& b) { return a + b * -1; }

Term substitute(const Term& term, const std::vector<Term>& iterators) {
  Term out = Term::number(term.constant);
  for (const Term::Part& part : term.parts) {
    if (part.kind == Term::Part::Kind::iterator)
      out = out + iterators[size_t(part.which)] * part.coefficient;
    else
      out.add(part.kind, part.which, part.coefficient);
  }
  return out;
}

namespace {

// A bound of a sum. It is unbounded as soon as one part is.
struct Bound {
  __extension__ typedef __int128 Wide;
  Wide sum = 0;
  bool unbounded = false;
  void add(int64_t coefficient, int64_t value) {
    if (value >= kUnbounded)
      unbounded = true;
    else
      sum += Wide(coefficient) * value;
  }
  int64_t value(int sign) const {
    if (unbounded) return sign * kUnbounded;
    return int64_t(std::clamp<Wide>(sum, -kUnbounded, kUnbounded));
  }
};

}  // namespace

Interval range(const Term& term, const std::vector<int64_t>& extents, const std::vector<int64_t>& symbol_ranges) {
  Bound low, high;
  low.sum = high.sum = term.constant;
  for (const Term::Part& part : term.parts) {
    if (part.kind == Term::Part::Kind::load) return {-kUnbounded, kUnbounded};
    const bool iterator = part.kind == Term::Part::Kind::iterator;
    const auto& counts = iterator ? extents : symbol_ranges;
    CARAVAN_CHECK(part.which >= 0 && size_t(part.which) < counts.size(),
                  "a term names " + std::string(iterator ? "iterator " : "symbol ") + std::to_string(part.which) +
                      " of " + std::to_string(counts.size()));
    const int64_t count = counts[size_t(part.which)];
    const int64_t largest = count > 0 ? count - 1 : iterator ? 0 : kUnbounded;  // the least value of a variable is 0
    (part.coefficient > 0 ? high : low).add(part.coefficient, largest);
  }
  return {low.value(-1), high.value(+1)};
}

namespace {

int64_t coefficient_of(const Term& term, const Term::Part& variable) {
  for (const Term::Part& part : term.parts)
    if (part.kind == variable.kind && part.which == variable.which) return part.coefficient;
  return 0;
}
// By which factors can the condition be subtracted from the term so that one of its variables disappears? Factor 1 if
// the condition has no variables.
std::vector<int64_t> multiples(const Term& condition, const Term& term) {
  if (condition.has_load()) return {};
  if (condition.is_constant()) return {1};
  std::vector<int64_t> out;
  for (const Term::Part& part : condition.parts) {
    const int64_t there = coefficient_of(term, part), multiple = there / part.coefficient;
    if (there % part.coefficient == 0 && multiple > 0 && std::find(out.begin(), out.end(), multiple) == out.end())
      out.push_back(multiple);
  }
  return out;
}
// term - condition * multiple, or nothing if that would overflow.
std::optional<Term> reduced(const Term& term, const Term& condition, int64_t multiple) {
  auto reduce = [&](int64_t from, int64_t by, int64_t& out) {
    int64_t product;
    return !__builtin_mul_overflow(by, multiple, &product) && !__builtin_sub_overflow(from, product, &out);
  };
  Term out = term;
  if (!reduce(term.constant, condition.constant, out.constant)) return std::nullopt;
  for (const Term::Part& part : condition.parts) {
    const int64_t before = coefficient_of(term, part);
    int64_t after;
    if (!reduce(before, part.coefficient, after)) return std::nullopt;
    int64_t change;
    if (__builtin_sub_overflow(after, before, &change)) return std::nullopt;
    out.add(part.kind, part.which, change);
  }
  return out;
}

}  // namespace

bool is_nonnegative(const Term& term, const std::vector<Term>& where, const std::vector<int64_t>& extents,
                    const std::vector<int64_t>& symbol_ranges) {
  auto proved = [&](auto& self, const Term& rest, size_t from, int more) -> bool {
    if (range(rest, extents, symbol_ranges).low >= 0) return true;
    for (size_t k = from; more > 0 && k < where.size(); ++k)
      for (int64_t multiple : multiples(where[k], rest))
        if (const std::optional<Term> less = reduced(rest, where[k], multiple);
            less && self(self, *less, k + 1, more - 1))
          return true;
    return false;
  };
  return proved(proved, term, 0, kMostConditions);
}

std::string to_string(const Term& term, const std::vector<std::string>& iterators,
                      const std::vector<std::string>& symbols, const std::vector<std::string>& operands) {
  auto variable = [&](const Term::Part& part) {
    const bool load = part.kind == Term::Part::Kind::load, iterator = part.kind == Term::Part::Kind::iterator;
    const auto& names = load ? operands : iterator ? iterators : symbols;
    if (part.which >= 0 && size_t(part.which) < names.size()) return names[size_t(part.which)];
    return (load ? "operand" : iterator ? "iterator" : "symbol") + std::to_string(part.which);
  };
  // Positive parts first: "i - j", never "-j + i".
  auto ordered = term.parts;
  std::stable_partition(ordered.begin(), ordered.end(), [](const Term::Part& part) { return part.coefficient > 0; });
  const bool constant_first = term.constant > 0 && (ordered.empty() || ordered.front().coefficient < 0);

  std::string out;
  auto append = [&](int64_t coefficient, const std::string& text) {
    const uint64_t magnitude = coefficient < 0 ? 0 - uint64_t(coefficient) : uint64_t(coefficient);
    out += out.empty() ? (coefficient < 0 ? "-" : "") : (coefficient < 0 ? " - " : " + ");
    if (text.empty())
      out += std::to_string(magnitude);
    else
      out += (magnitude == 1 ? "" : std::to_string(magnitude) + "*") + text;
  };
  if (constant_first) append(term.constant, "");
  for (const Term::Part& part : ordered) append(part.coefficient, variable(part));
  if (!constant_first && (term.constant != 0 || out.empty())) append(term.constant, "");
  return out;
}

}  // namespace caravan::ir
