// Index terms: where an operand is read or a result written, as a function of the iteration point.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caravan::ir {

// constant + sum of coefficient * variable. A variable is an iterator of the accumulation, a static symbol of
// the program (bound at each run), or the value that an index tensor has at this point (`load` names the operand).
struct Term {
  struct Part {
    enum class Kind : uint8_t { iterator, symbol, load } kind = Kind::iterator;
    int which = 0;
    int64_t coefficient = 1;
    bool operator==(const Part&) const = default;
  };
  int64_t constant = 0;
  std::vector<Part> parts;  // normal form: sorted by (kind, which), no zero coefficient, no variable twice

  bool operator==(const Term&) const = default;
  bool is_constant() const { return parts.empty(); }
  bool has_load() const;
  bool mentions(int iterator) const;
  Term& add(Part::Kind kind, int which, int64_t coefficient);  // keeps the normal form

  static Term number(int64_t value) { return {value, {}}; }
  static Term iterator(int which, int64_t coefficient = 1);
  static Term symbol(int which, int64_t coefficient = 1);
  static Term load(int operand, int64_t coefficient = 1);
};

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, int64_t factor);
// The term with every iterator k replaced by iterators[k].
Term substitute(const Term& term, const std::vector<Term>& iterators);

// The least and the greatest value over the box of the iterators and the ranges of the symbols. A load is unbounded. A
// symbol without a range (range 0) is unbounded above. An iterator of extent 0 counts as 0.
struct Interval {
  int64_t low, high;
};
inline constexpr int64_t kUnbounded = INT64_MAX / 4;
Interval range(const Term& term, const std::vector<int64_t>& extents, const std::vector<int64_t>& symbol_ranges);

// Is the term >= 0 wherever all conditions of `where` are >= 0? True only if it can be proved: the term is a sum of
// positive multiples of at most kMostConditions conditions, and of a remainder whose interval is >= 0. Conditions on
// the values of index tensors are not used, because they can only be tested after other accesses.
inline constexpr int kMostConditions = 4;
bool is_nonnegative(const Term& term, const std::vector<Term>& where, const std::vector<int64_t>& extents,
                    const std::vector<int64_t>& symbol_ranges);

// "2*oh + kh - 1"; a load prints as the operand's text, so a gather reads table[ids[b], d].
std::string to_string(const Term& term, const std::vector<std::string>& iterators,
                      const std::vector<std::string>& symbols, const std::vector<std::string>& operands);

}  // namespace caravan::ir
