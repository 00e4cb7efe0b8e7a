// Terms: the normal form, ranges, what conditions prove, text.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "caravan/base/error.h"
#include "caravan/ir/program.h"
#include "ir/bodies.h"

namespace caravan::ir {
namespace {

TEST(Term, NormalFormIsSortedAndHasNoZeros) {
  const Term a = Term::iterator(2, 3) + Term::symbol(0) + Term::iterator(0) + Term::number(4);
  const Term b = Term::number(4) + Term::iterator(0) + Term::symbol(0) + Term::iterator(2) + Term::iterator(2, 2);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.parts.size(), 3u);
  EXPECT_EQ(a - b, Term{});
  EXPECT_TRUE((a - b).is_constant());
  EXPECT_EQ(a * 0, Term{});
  EXPECT_EQ(a * 2, a + a);
  EXPECT_EQ(Term::iterator(0, 0), Term{});
  EXPECT_FALSE(a.has_load());
  EXPECT_TRUE((a + Term::load(1)).has_load());
}

TEST(Term, Range) {
  const std::vector<int64_t> extents = {5, 3, 0}, symbols = {10, 0};
  struct Row {
    Term term;
    int64_t low, high;
  };
  const Row rows[] = {
      {Term::number(7), 7, 7},
      {Term::iterator(0, 2) + Term::iterator(1) + Term::number(-1), -1, 9},
      {Term::iterator(0) - Term::iterator(1), -2, 4},
      {Term::symbol(0, 4) + Term::iterator(1), 0, 38},
      {Term::symbol(1), 0, kUnbounded},
      {Term::number(3) - Term::symbol(1), -kUnbounded, 3},
      {Term::load(0), -kUnbounded, kUnbounded},
      {Term::iterator(2), 0, 0},
      {Term::iterator(0, INT64_MAX / 2), 0, kUnbounded},
  };
  for (const Row& row : rows) {
    const Interval got = range(row.term, extents, symbols);
    EXPECT_EQ(got.low, row.low);
    EXPECT_EQ(got.high, row.high);
  }
  EXPECT_THROW(range(Term::iterator(3), extents, symbols), InternalError);
}

TEST(Term, ConditionsProveMoreThanIntervals) {
  const Term i = Term::iterator(0), j = Term::iterator(1), at = Term::symbol(0), id = Term::load(0);
  auto n = [](int64_t value) { return Term::number(value); };
  struct Row {
    const char* name;
    Term term;
    std::vector<Term> where;
    bool proved;
  };
  const Row rows[] = {
      // i < 4, j < 3
      {"an interval alone", i + j, {}, true},
      {"an interval that reaches below 0", i - j, {}, false},
      {"the condition itself", i - j, {i - j}, true},
      {"one that asks for more", i - j + n(1), {i - j}, true},
      {"one that asks for less", i - j - n(1), {i - j}, false},
      {"a multiple and a rest", i * 2 - j * 2 + n(1), {i - j}, true},
      {"half of one", i - j, {i * 2 - j * 2}, false},  // true, but not seen: multiples are whole
      {"its opposite", j - i, {i - j}, false},
      {"a condition and an interval", i, {i - j}, true},
      {"two conditions", i - j + at - n(5), {at - i - n(5), i * 2 - j}, true},
      {"a condition that is never true", n(-1), {n(-1)}, true},
      {"a symbol without a range", n(9) - at, {n(8) - at}, true},
      {"an index tensor, whose condition is tested too late", i - j, {id - j, i - id}, false},
  };
  for (const Row& row : rows) EXPECT_EQ(is_nonnegative(row.term, row.where, {4, 3}, {0}), row.proved) << row.name;
}
TEST(Term, WhatIsProvedIsTrue) {
  std::mt19937 random(1);
  auto pick = [&](int low, int high) { return low + int(random() % uint32_t(high - low + 1)); };
  auto term = [&] {
    Term out = Term::number(pick(-4, 4));
    for (int k = 0; k < 3; ++k) out.add(Term::Part::Kind::iterator, k, pick(-3, 3));
    return out;
  };
  int proved = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::vector<int64_t> extents = {pick(1, 5), pick(1, 5), pick(1, 5)};
    std::vector<Term> where;
    for (int k = pick(0, 4); k > 0; --k) where.push_back(term());
    Term wanted = term();
    if (!where.empty() && pick(0, 1)) wanted = where[0] * pick(1, 3) + Term::iterator(pick(0, 2), pick(-1, 2));
    if (!is_nonnegative(wanted, where, extents, {})) continue;
    ++proved;
    auto value = [](const Term& t, const int64_t* at) {
      int64_t out = t.constant;
      for (const Term::Part& part : t.parts) out += part.coefficient * at[part.which];
      return out;
    };
    for (int64_t point = 0; point < extents[0] * extents[1] * extents[2]; ++point) {
      const int64_t at[] = {point % extents[0], point / extents[0] % extents[1], point / extents[0] / extents[1]};
      const bool inside = std::ranges::all_of(where, [&](const Term& t) { return value(t, at) >= 0; });
      ASSERT_TRUE(!inside || value(wanted, at) >= 0) << "round " << round;
    }
  }
  EXPECT_GT(proved, 1000);
}
TEST(Term, Printing) {
  const Names iterators = {"oh", "kh"}, symbols = {"batch"}, operands = {"x", "ids[oh]"};
  auto text = [&](const Term& term) { return to_string(term, iterators, symbols, operands); };
  EXPECT_EQ(text(Term{}), "0");
  EXPECT_EQ(text(Term::number(-3)), "-3");
  EXPECT_EQ(text(Term::iterator(0, 2) + Term::iterator(1) - Term::number(1)), "2*oh + kh - 1");
  EXPECT_EQ(text(Term::iterator(1) - Term::iterator(0)), "kh - oh");
  EXPECT_EQ(text(Term::number(4) - Term::iterator(0)), "4 - oh");
  EXPECT_EQ(text(Term::number(-4) - Term::iterator(0, 3)), "-3*oh - 4");
  EXPECT_EQ(text(Term::symbol(0, 10) + Term::iterator(0)), "oh + 10*batch");
  EXPECT_EQ(text(Term::load(1) + Term::number(1)), "ids[oh] + 1");
}

}  // namespace
}  // namespace caravan::ir
