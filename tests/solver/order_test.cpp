// The order of constraints, rows and axes means nothing to inference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>

#include "caravan/base/error.h"
#include "sanitized.h"
#include "solver/model.h"

namespace caravan::shape {
namespace {

// The same system in another order.
struct Shuffled {
  System system;
  std::vector<int> rows, axes;  // old number -> new number
};

Shuffled shuffled(const System& from, std::mt19937_64& random) {
  Shuffled out{from, std::vector<int>(from.rows.size()), std::vector<int>(from.axes.size())};
  auto permutation = [&](std::vector<int>& list) {
    for (size_t i = 0; i < list.size(); ++i) list[i] = int(i);
    std::shuffle(list.begin(), list.end(), random);
  };
  permutation(out.rows), permutation(out.axes);
  auto row = [&](RowId& r) { r = r < 0 ? r : out.rows[size_t(r)]; };
  auto axis = [&](AxisId& a) { a = a < 0 ? a : out.axes[size_t(a)]; };
  System& s = out.system;
  for (size_t r = 0; r < from.rows.size(); ++r) s.rows[size_t(out.rows[r])] = from.rows[r];
  for (size_t a = 0; a < from.axes.size(); ++a) s.axes[size_t(out.axes[a])] = from.axes[a];
  for (Equation& e : s.equations) {
    row(e.row), row(e.variable), row(e.second);
    for (AxisId& a : e.before) axis(a);
    for (AxisId& a : e.after) axis(a);
    if (e.before.empty() && e.after.empty() && e.variable >= 0 && e.second < 0 && random() % 2)
      std::swap(e.row, e.variable);
  }
  for (KnownRow& k : s.known) row(k.row);
  for (JoinConstraint& j : s.joins) {
    row(j.result);
    for (RowId& r : j.operands) row(r);
    for (size_t i = j.operands.size(); i > 1; --i) {
      const size_t k = random() % i;
      std::swap(j.operands[i - 1], j.operands[k]), std::swap(j.roles[i - 1], j.roles[k]);
    }
  }
  for (SizeFact& f : s.sizes) axis(f.axis);
  for (IndexFact& i : s.indices) axis(i.axis);
  for (Arithmetic& a : s.arithmetic) {
    axis(a.whole), row(a.row);
    for (AxisId& part : a.parts) axis(part);
    if (a.kind == Arithmetic::Kind::product) std::shuffle(a.parts.begin(), a.parts.end(), random);
  }
  for (AxisEquality& e : s.equalities) {
    axis(e.a), axis(e.b);
    if (random() % 2) std::swap(e.a, e.b);
  }
  for (auto& [dim, a] : s.dims) axis(a);
  auto mix = [&](auto& list) { std::shuffle(list.begin(), list.end(), random); };
  mix(s.equations), mix(s.known), mix(s.joins), mix(s.sizes), mix(s.indices), mix(s.arithmetic), mix(s.equalities);
  return out;
}

// Every row and axis of a solution, as text.
std::string text_of(const Solution& solution, const std::vector<int>& rows, const std::vector<int>& axes) {
  std::string out;
  for (int r : rows) {
    for (const Axis& axis : solution.row(r))
      out += std::to_string(axis.size) + axis.basis + (axis.broadcastable ? "~" : "") + ",";
    out += ";";
  }
  out += "|";
  for (int a : axes) out += std::to_string(solution.size(a)) + ",";
  return out;
}
std::vector<int> in_order(size_t n) {
  std::vector<int> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = int(i);
  return out;
}
std::optional<std::string> solved(const System& system, const std::vector<int>& rows, const std::vector<int>& axes,
                                  std::string* why = nullptr) {
  try {
    return text_of(solve(system), rows, axes);
  } catch (const ShapeError& error) {
    if (why) *why = error.what();
    return std::nullopt;
  }
}

// All orders give what the first gives. Returns whether it has a solution.
bool expect_order_free(const System& system, const std::string& what, int shuffles, uint64_t seed) {
  std::string why;
  const auto expected = solved(system, in_order(system.rows.size()), in_order(system.axes.size()), &why);
  std::mt19937_64 random(seed);
  for (int i = 0; i < shuffles; ++i) {
    const Shuffled other = shuffled(system, random);
    std::string other_why;
    const auto got = solved(other.system, other.rows, other.axes, &other_why);
    EXPECT_EQ(got, expected) << what << ", shuffle " << i << ": order changes the result.\nfirst: " << why
                             << "\nshuffled: " << other_why << "\n"
                             << to_string(system);
    if (got != expected) break;
  }
  return expected.has_value();
}

TEST(Solver, OrderMeansNothing) {
  for (const NamedModel& named : solvable_models()) {
    Model model;
    named.build(model);
    std::string why;
    const auto direct =
        solved(model.system, in_order(model.system.rows.size()), in_order(model.system.axes.size()), &why);
    EXPECT_TRUE(direct.has_value()) << named.what << ": " << why;
    expect_order_free(model.system, named.what, 60, 1);
  }
}

TEST(Solver, RefusedInEveryOrder) {
  for (const NamedModel& named : refused_models()) {
    Model model;
    named.build(model);
    EXPECT_FALSE(expect_order_free(model.system, named.what, 60, 2)) << named.what << " must be refused";
  }
}

// Random graphs: most are refused, some in odd ways; all orders must agree.
void random_program(Model& m, std::mt19937_64& random) {
  auto roll = [&](int n) { return int(random() % uint64_t(n)); };
  const bool tame = roll(4) > 0;  // shapes that go together, and no operations that need others
  const std::vector<const char*> shapes =
      tame ? std::vector<const char*>{"3", "2|3", "3", "2|3", "4,2|3", "2|4,3"}
           : std::vector<const char*>{"", "3", "2|3", "1", "3->2", "2|1", "2,3", "4|2,3", "5|3->2"};
  std::vector<T> made;
  auto any = [&]() -> const T& { return made[size_t(roll(int(made.size())))]; };
  std::vector<T> states;
  for (int i = 2 + roll(3); i > 0; --i) made.push_back(m.data(shapes[size_t(roll(int(shapes.size())))]));
  for (int i = roll(4); i > 0; --i) made.push_back(m.param(roll(3) ? "" : nullptr, roll(4) ? nullptr : "3"));
  for (int i = roll(2); i > 0; --i) made.push_back(states.emplace_back(m.state()));
  for (int i = 3 + roll(6); i > 0; --i) {
    switch (roll(tame ? 9 : 15)) {
      case 0: made.push_back(m.apply(m.param(nullptr, roll(2) ? nullptr : "3"), any())); break;
      case 1: made.push_back(m.point({m.apply(m.param(), any()), m.param("")})); break;
      case 2:
      case 3:
      case 4: made.push_back(m.point({any(), any()})); break;
      case 5: made.push_back(m.point({any(), m.param(), m.number()})); break;
      case 6: made.push_back(m.kept_mean(any())); break;
      case 7: made.push_back(m.einsum("...|...->... => 0,...|...->...", {any()})); break;
      case 8:
        made.push_back(tame && roll(2) ? m.stack({any(), m.point({any(), any()})}, RowKind::batch)
                                       : m.einsum("...|...->... => ...|...", {any()}));
        break;
      case 14: made.push_back(m.apply(any(), any())); break;
      case 9: made.push_back(m.einsum("...|i->...; ...|... => ...|i->...", {any(), any()})); break;
      case 10: made.push_back(m.stack({any(), any()}, RowKind(roll(3)))); break;
      case 11: made.push_back(m.same({any(), any()})); break;
      case 12:
        made.push_back(m.einsum("... | ..., a&b => ... | ..., a, b", {any()}, {{"a", int64_t(1 + roll(3))}}));
        break;
      case 13: made.push_back(m.gather(m.param("5"), any())); break;
    }
  }
  for (const T& s : states) m.assign(s, any());
}

TEST(Solver, OrderMeansNothingForRandomPrograms) {
  int accepted = 0;
  const uint64_t programs = getenv("CARAVAN_RANDOM_PROGRAMS") ? std::stoull(getenv("CARAVAN_RANDOM_PROGRAMS"))
                            : kSanitized                      ? 1'000
                                                              : 3'000;
  for (uint64_t seed = 0; seed < programs && !HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    Model model;
    random_program(model, random);
    accepted += expect_order_free(model.system, "random program " + std::to_string(seed), 8, seed);
  }
  std::printf("%d of %d random programs have shapes\n", accepted, int(programs));
  EXPECT_GT(accepted, int(programs) / 20);
}

}  // namespace
}  // namespace caravan::shape
