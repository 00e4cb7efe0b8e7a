// Suites generated from the op table: a new row is tested by being there.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <random>
#include <set>

#include "caravan/base/error.h"
#include "caravan/ops/dtype.h"
#include "caravan/ops/op.h"
#include "caravan/ops/table.h"

namespace caravan {

void PrintTo(const OpRow& row, std::ostream* out) { *out << row.name; }
void PrintTo(const AccumulatorRow& row, std::ostream* out) { *out << row.name; }

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kPoints = 200;

double eval(Op op, double a, double b = 0, double c = 0) { return row(op).eval(a, b, c); }

// The values of all entries of a formula.
std::vector<double> entry_values(const Formula& formula, std::span<const double> variables) {
  std::vector<double> values;
  for (int i = 0; i < formula.size; ++i) {
    const Formula::Entry& entry = formula.entries[size_t(i)];
    switch (entry.leaf) {
      case Formula::Leaf::constant: values.push_back(entry.constant); break;
      case Formula::Leaf::variable: values.push_back(variables[entry.variable]); break;
      case Formula::Leaf::none:
        values.push_back(eval(entry.op, values[entry.args[0]], values[entry.args[1]], values[entry.args[2]]));
    }
  }
  return values;
}

double evaluate(const Formula& formula, std::span<const double> variables) {
  return entry_values(formula, variables).back();
}

double evaluate(const char* text, std::span<const std::string_view> names, std::span<const double> variables) {
  const CompiledFormula compiled = compile_formula(text, names, op_rows());
  EXPECT_EQ(compiled.error, nullptr) << text << " at " << compiled.at;
  return evaluate(compiled.formula, variables);
}

// What each variable of the formula receives when its result receives 1, by the pullback rows.
std::vector<double> differentiate(const Formula& formula, std::span<const double> variables) {
  const std::vector<double> values = entry_values(formula, variables);
  std::vector<double> received(values.size(), 0.0), out(variables.size(), 0.0);
  received.back() = 1;
  for (int i = formula.size - 1; i >= 0; --i) {
    const Formula::Entry& entry = formula.entries[size_t(i)];
    if (entry.leaf == Formula::Leaf::variable) out[entry.variable] += received[size_t(i)];
    if (entry.leaf != Formula::Leaf::none) continue;
    const double local[5] = {received[size_t(i)], values[entry.args[0]], values[entry.args[1]], values[entry.args[2]],
                             values[size_t(i)]};
    for (int k = 0; k < row(entry.op).arity; ++k) received[entry.args[k]] += evaluate(pullback(entry.op, k), local);
  }
  return out;
}

// g, a, b, c, y at a point.
std::array<double, 5> pullback_variables(const OpRow& row, double g, const std::array<double, 3>& at) {
  return {g, at[0], at[1], at[2], row.eval(at[0], at[1], at[2])};
}

bool near_kink(const OpRow& row, const std::array<double, 3>& at) {
  constexpr double margin = 0.02;
  for (const std::optional<double>& kink : row.avoid)
    if (kink && std::abs(at[0] - *kink) < margin) return true;
  if (row.avoid_ties)
    for (int i = 0; i < row.arity; ++i)
      for (int j = 0; j < i; ++j)
        if (std::abs(at[size_t(i)] - at[size_t(j)]) < margin) return true;
  if (row.avoid_integers) {
    const double twice = 2 * (row.arity == 2 ? at[0] / at[1] : at[0]);
    if (std::abs(twice - std::rint(twice)) < 4 * margin) return true;
  }
  return false;
}

class EveryOp : public testing::TestWithParam<OpRow> {
 protected:
  const OpRow& op() const { return param_; }
  std::array<double, 3> draw() {
    while (true) {
      std::array<double, 3> at{};
      for (int i = 0; i < op().arity; ++i) at[size_t(i)] = draw(i);
      if (!near_kink(op(), at)) return at;
    }
  }
  double draw(int operand) {
    const CheckDomain& domain = op().domain[size_t(operand)];
    return std::uniform_real_distribution<double>(domain.low, domain.high)(random_);
  }

 private:
  const OpRow param_ = GetParam();
  std::mt19937 random_{20240607};
};

TEST_P(EveryOp, PullbackIsTheDerivative) {
  for (int n = 0; n < kPoints; ++n) {
    const std::array<double, 3> at = draw();
    for (int k = 0; k < op().arity; ++k) {
      constexpr double h = 1e-5;
      std::array<double, 3> up = at, down = at;
      up[size_t(k)] += h;
      down[size_t(k)] -= h;
      const double numeric = (op().eval(up[0], up[1], up[2]) - op().eval(down[0], down[1], down[2])) / (2 * h);
      const double g = 1.7;
      const double analytic = evaluate(pullback(op().op, k), pullback_variables(op(), g, at));
      ASSERT_NEAR(analytic, g * numeric, 1e-7 * (1 + std::abs(g * numeric)))
          << op().name << " operand " << k << " at " << at[0] << ", " << at[1] << ", " << at[2];
    }
  }
}

// The pullback as a function of (g, a, b, c), y being a function of the operands, differentiated through the rows.
TEST_P(EveryOp, PullbackOfThePullbackIsTheSecondDerivative) {
  for (int n = 0; n < kPoints; ++n) {
    const std::array<double, 3> at = draw();
    for (int k = 0; k < op().arity; ++k) {
      const Formula& formula = pullback(op().op, k);
      const double g = 1.3;
      const std::array<double, 5> variables = pullback_variables(op(), g, at);
      const std::vector<double> received = differentiate(formula, variables);
      ASSERT_NEAR(received[0] * g, evaluate(formula, variables), 1e-10 * (1 + std::abs(received[0])))
          << op().name << ": a pullback is linear in g";
      for (int j = 0; j < op().arity; ++j) {
        constexpr double h = 1e-5;
        std::array<double, 3> up = at, down = at;
        up[size_t(j)] += h;
        down[size_t(j)] -= h;
        const double numeric = (evaluate(formula, pullback_variables(op(), g, up)) -
                                evaluate(formula, pullback_variables(op(), g, down))) /
                               (2 * h);
        std::array<double, 5> through_y = variables;
        through_y[0] = received[4];
        const double analytic = received[size_t(j + 1)] + evaluate(pullback(op().op, j), through_y);
        ASSERT_NEAR(analytic, numeric, 1e-6 * (1 + std::abs(numeric)))
            << op().name << " operands " << k << ", " << j << " at " << at[0] << ", " << at[1] << ", " << at[2];
      }
    }
  }
}

TEST_P(EveryOp, FactsHold) {
  const auto& f = op().eval;
  for (int n = 0; n < kPoints; ++n) {
    const double a = draw(0), b = draw(1), c = draw(2), other = draw(0);
    const auto near = [](double value) { return 1e-12 * (1 + std::abs(value)); };
    if (op().commutative) {
      ASSERT_EQ(f(a, b, 0), f(b, a, 0)) << op().name;
    }
    if (op().associative) {
      ASSERT_NEAR(f(f(a, b, 0), other, 0), f(a, f(b, other, 0), 0), near(f(f(a, b, 0), other, 0))) << op().name;
    }
    if (op().neutral) {
      ASSERT_EQ(f(a, *op().neutral, 0), a) << op().name;
    }
    if (op().zero_preserving) {
      ASSERT_EQ(f(0, b, c), 0) << op().name;
    }
    if (op().idempotent) {
      ASSERT_EQ(op().arity == 1 ? f(f(a, 0, 0), 0, 0) : f(a, a, 0), op().arity == 1 ? f(a, 0, 0) : a) << op().name;
    }
    if (op().monotone > 0) {
      ASSERT_LE(f(std::min(a, other), b, c), f(std::max(a, other), b, c)) << op().name;
    }
    if (op().monotone < 0) {
      ASSERT_GE(f(std::min(a, other), b, c), f(std::max(a, other), b, c)) << op().name;
    }
    if (op().result == ResultType::logic) {
      ASSERT_TRUE(f(a, b, c) == 0 || f(a, b, c) == 1) << op().name;
    }
  }
}

TEST_P(EveryOp, IsFoundByItsName) {
  EXPECT_EQ(find_op(op().name), op().op);
  EXPECT_EQ(&row(op().op), &op_rows()[size_t(op().op)]);
  const bool keyword = op().name == "not" || op().name == "and" || op().name == "or";
  EXPECT_EQ(op().function.empty(), !keyword);
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::ValuesIn(op_rows().begin(), op_rows().end()),
                         [](const auto& test) { return std::string(test.param.name); });

// The C spellings, compiled by the system's compiler, give what `eval` gives.
class CSpelling : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / ("caravan_ops_" + std::to_string(std::random_device{}()));
    std::filesystem::create_directories(folder_);
    std::ofstream out(folder_ / "ops.c");
    out << "#include <tgmath.h>\n#include <stdint.h>\n";
    for (const auto& [type, suffix] :
         {std::pair{"double", "f64"}, {"float", "f32"}, {"int32_t", "i32"}, {"uint8_t", "u8"}})
      for (const OpRow& row : op_rows()) {
        const bool integer = std::string(suffix) == "i32" || std::string(suffix) == "u8";
        if (integer && row.result == ResultType::real) continue;
        out << "#define T " << type << "\nT " << row.name << "__" << suffix << "(T a, T b, T c) { return "
            << (integer && !row.c_integer.empty() ? row.c_integer : row.c) << "; }\n#undef T\n";
      }
    out.close();
    const std::string library = (folder_ / "ops.so").string();
    const std::string command =
        "cc -O1 -w -fwrapv -ffp-contract=off -shared -fPIC -o " + library + " " + (folder_ / "ops.c").string() + " -lm";
    if (std::system("cc --version >/dev/null 2>&1") == 0) {
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
      library_ = dlopen(library.c_str(), RTLD_NOW);
      ASSERT_NE(library_, nullptr) << dlerror();
    }
  }
  static void TearDownTestSuite() {
    if (library_) dlclose(library_);
    library_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    if (!library_) GTEST_SKIP() << "there is no C compiler `cc` here";
  }
  template <class T>
  T call(const OpRow& row, const char* suffix, T a, T b, T c) {
    void* function = dlsym(library_, (std::string(row.name) + "__" + suffix).c_str());
    EXPECT_NE(function, nullptr) << row.name;
    return function ? reinterpret_cast<T (*)(T, T, T)>(function)(a, b, c) : T();
  }

  static inline std::filesystem::path folder_;
  static inline void* library_ = nullptr;
};

TEST_F(CSpelling, OfFloatsGivesTheEvaluation) {
  std::vector<double> points = {0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -2.5, 3, 80, -80, kInf, -kInf, kNaN};
  for (const OpRow& row : op_rows())
    for (double a : points)
      for (double b : points)
        for (double c : points) {
          const double expected = row.eval(a, b, c), got = call<double>(row, "f64", a, b, c);
          ASSERT_TRUE(std::isnan(expected) ? std::isnan(got)
                                           : got == expected || std::abs(got - expected) <= 1e-15 * std::abs(expected))
              << row.name << "(" << a << ", " << b << ", " << c << ") is " << expected << ", in C " << got;
          const double got32 = double(call<float>(row, "f32", float(a), float(b), float(c)));
          const double expected32 = convert(DType::f32, expected);
          ASSERT_TRUE(std::isnan(expected32)
                          ? std::isnan(got32)
                          : got32 == expected32 || std::abs(got32 - expected32) <= 1e-5 * std::abs(expected32) + 1e-6)
              << row.name << "(" << a << ", " << b << ", " << c << ") is " << expected32 << ", in C with floats "
              << got32;
        }
}

TEST_F(CSpelling, OfIntegersGivesTheEvaluation) {
  const std::vector<int32_t> points = {0, 1, -1, 2, -2, 7, -7, 1000, -1000, 46341, 2147483647, -2147483647 - 1};
  for (const OpRow& row : op_rows()) {
    if (row.result == ResultType::real) continue;
    for (int32_t a : points)
      for (int32_t b : points)
        for (int32_t c : points) {
          const double exact = row.eval(a, b, c);
          if (can_hold(DType::i32, exact) || std::isnan(exact)) {
            ASSERT_EQ(call<int32_t>(row, "i32", a, b, c), convert(DType::i32, exact))
                << row.name << "(" << a << ", " << b << ", " << c << ")";
          }
          const uint8_t u = uint8_t(a), v = uint8_t(b), w = uint8_t(c);
          const double small = row.eval(u, v, w);
          if (can_hold(DType::u8, small) || std::isnan(small)) {
            ASSERT_EQ(call<uint8_t>(row, "u8", u, v, w), convert(DType::u8, small))
                << row.name << "(" << +u << ", " << +v << ", " << +w << ")";
          }
        }
  }
}

TEST(Op, IsStableAtTheExtremes) {
  EXPECT_EQ(eval(Op::sigmoid, -1000), 0);
  EXPECT_EQ(eval(Op::sigmoid, 1000), 1);
  EXPECT_DOUBLE_EQ(eval(Op::sigmoid, -50), std::exp(-50.0));
  EXPECT_EQ(eval(Op::silu, -1000), 0);
  EXPECT_EQ(eval(Op::silu, 1000), 1000);
  EXPECT_EQ(eval(Op::gelu, 1000), 1000);
  EXPECT_EQ(eval(Op::gelu_tanh, 1e200), 1e200);
  EXPECT_DOUBLE_EQ(eval(Op::log1p, 1e-20), 1e-20);
  EXPECT_DOUBLE_EQ(eval(Op::expm1, 1e-20), 1e-20);
  EXPECT_TRUE(std::isnan(eval(Op::relu, kNaN)));
  for (Op op : {Op::sigmoid, Op::silu, Op::gelu, Op::gelu_tanh, Op::tanh, Op::erf})
    for (double a : {-1e200, -1000.0, 1000.0, 1e200})
      EXPECT_TRUE(std::isfinite(evaluate(pullback(op, 0), pullback_variables(row(op), 1, {a}))))
          << row(op).name << " at " << a;
}

TEST(Op, NaNWinsMaxAndMin) {
  for (Op op : {Op::max, Op::min}) {
    EXPECT_TRUE(std::isnan(eval(op, kNaN, 1)));
    EXPECT_TRUE(std::isnan(eval(op, 1, kNaN)));
  }
  for (double x : {-2.0, 0.0, 2.0}) {
    EXPECT_TRUE(std::isnan(eval(Op::clamp, kNaN, -1, 1)));
    EXPECT_TRUE(std::isnan(eval(Op::clamp, x, kNaN, 1)));
    EXPECT_TRUE(std::isnan(eval(Op::clamp, x, -1, kNaN)));
  }
  EXPECT_EQ(eval(Op::clamp, 5, 2, 1), 1);  // bounds in the wrong order: min(max(a, b), c)
}

TEST(Op, RoundsHalvesToEvenAndTakesTheSignOfTheModulus) {
  struct {
    double in, out;
  } rounds[] = {{0.5, 0}, {1.5, 2}, {2.5, 2}, {-0.5, 0}, {-1.5, -2}, {0.49, 0}, {2.51, 3}};
  for (auto [in, out] : rounds) EXPECT_EQ(eval(Op::round, in), out) << in;
  struct {
    double a, b, out;
  } mods[] = {{7, 3, 1}, {-7, 3, 2}, {7, -3, -2}, {-7, -3, -1}, {6, 3, 0}, {5.5, 2, 1.5}};
  for (auto [a, b, out] : mods) EXPECT_EQ(eval(Op::mod, a, b), out) << a << " mod " << b;
}

TEST(Op, PowHasNoNaNInItsDerivatives) {
  struct {
    double a, b, da, db;
  } cases[] = {{0, 0, 0, 0},
               {0, 1, 1, 0},
               {0, 2, 0, 0},
               {0, 3, 0, 0},
               {-2, 3, 12, 0},
               {-2, 0, 0, 0},
               {-1, 2, -2, 0},
               {3, 0, 0, std::log(3.0)},
               {2, 2, 4, 4 * std::log(2.0)}};
  for (auto [a, b, da, db] : cases) {
    const std::array<double, 5> at = pullback_variables(row(Op::pow), 1, {a, b});
    EXPECT_DOUBLE_EQ(evaluate(pullback(Op::pow, 0), at), da) << a << "^" << b;
    EXPECT_DOUBLE_EQ(evaluate(pullback(Op::pow, 1), at), db) << a << "^" << b;
    for (int k : {0, 1})
      for (double second : differentiate(pullback(Op::pow, k), at))
        EXPECT_TRUE(std::isfinite(second)) << a << "^" << b << " operand " << k;
  }
  // d2/da2 of a^2 is 2, also at 0; d2/(da db) of a^b at b = 0 is 1/a.
  EXPECT_EQ(differentiate(pullback(Op::pow, 0), pullback_variables(row(Op::pow), 1, {0, 2}))[1], 2);
  EXPECT_EQ(differentiate(pullback(Op::pow, 0), pullback_variables(row(Op::pow), 1, {4, 0}))[2], 0.25);
}

TEST(Op, GradientsOfTiesGoOneWay) {
  for (Op op : {Op::max, Op::min}) {
    const std::array<double, 5> at = pullback_variables(row(op), 3, {1, 1});
    EXPECT_EQ(evaluate(pullback(op, 0), at), 3);
    EXPECT_EQ(evaluate(pullback(op, 1), at), 0);
  }
  for (double a : {-1.0, 0.0, 0.5, 1.0, 2.0}) {  // clamp's operands share g, whole
    const std::array<double, 5> at = pullback_variables(row(Op::clamp), 3, {a, 0, 1});
    EXPECT_EQ(evaluate(pullback(Op::clamp, 0), at) + evaluate(pullback(Op::clamp, 1), at) +
                  evaluate(pullback(Op::clamp, 2), at),
              3)
        << a;
  }
  // Nothing is multiplied by a mask: an infinite cotangent does not become NaN where it is not taken.
  EXPECT_EQ(evaluate(pullback(Op::relu, 0), pullback_variables(row(Op::relu), kInf, {-1})), 0);
}

TEST(Op, WhatHasNoDerivativeSaysZero) {
  const std::set<Op> flat = {Op::sign, Op::floor, Op::ceil, Op::round, Op::trunc, Op::not_, Op::eq,
                             Op::ne,   Op::lt,    Op::le,   Op::gt,    Op::ge,    Op::and_, Op::or_};
  for (const OpRow& row : op_rows())
    for (int k = 0; k < row.arity; ++k)
      EXPECT_EQ(pullback_is_zero(row.op, k), flat.count(row.op) > 0 || (row.op == Op::where && k == 0))
          << row.name << " operand " << k;
  EXPECT_THROW(pullback(Op::sin, 1), InternalError);
  EXPECT_EQ(find_op("sinus"), std::nullopt);
}

constexpr std::string_view kXY[] = {"x", "y"};

TEST(FormulaText, MeansWhatItSays) {
  const double x = 3, y = 5, at[] = {x, y};
  struct {
    const char* text;
    double value;
  } cases[] = {
      {"x", x},
      {"2", 2},
      {"-x", -x},
      {"--x", x},
      {"x - y - 1", x - y - 1},
      {"x - (y - 1)", x - (y - 1)},
      {"x + y * 2", x + y * 2},
      {"x / y / 2", x / y / 2},
      {"-x * y", -x * y},
      {"x - -2", 5},
      {"x-2", 1},
      {"-2 * x", -6},
      {"x < y", 1},
      {"x + 2 < y", 0},
      {"x + 2 <= y", 1},
      {"x > y == 0", 1},
      {"x >= y", 0},
      {"x != y", 1},
      {"1 || 0 && 0", 1},
      {"(1 || 0) && 0", 0},
      {"x == 3 && y == 4 || y == 5", 1},
      {"max(x, y) * min(x, y)", 15},
      {"where(x > y, x, -y)", -y},
      {" square( x )+1 ", 10},
      {"clamp(x, 4, 4.5)", 4},
      {"and(x, not(y))", 0},
      {"1.1283791670955126", 1.1283791670955126},
      {"0.6931471805599453", 0.6931471805599453},
      {"1e3", 1e3},
      {"2.5e-3", 2.5e-3},
      {"1e+2", 100},
      {"0.044715", 0.044715},
      {"0.3989422804014327", 0.3989422804014327},
      {"0.1", 0.1},
      {"123456789012345678", 123456789012345678.0},
  };
  for (auto [text, value] : cases) EXPECT_EQ(evaluate(text, kXY, at), value) << text;
}

TEST(FormulaText, SharesEqualEntriesAndFoldsNothing) {
  EXPECT_EQ(compile_formula("sin(x) * sin(x) + sin(x)", kXY, op_rows()).formula.size, 4);
  EXPECT_EQ(compile_formula("1 + 1", kXY, op_rows()).formula.size, 2);
  EXPECT_EQ(compile_formula("x * y + y * x", kXY, op_rows()).formula.size, 5);
  EXPECT_EQ(compile_formula("0 + -0", kXY, op_rows()).formula.size, 3);  // 0 and -0 are two constants
}

TEST(FormulaText, RefusesWhatItCannotRead) {
  struct {
    const char* text;
    const char* phrase;
  } cases[] = {
      {"", "the end"},
      {"x +", "the end"},
      {"z", "unknown variable"},
      {"sinus(x)", "unknown function"},
      {"sin(x", "`)`"},
      {"pow(x)", "`,`"},
      {"sin(x, y)", "`)`"},
      {"(x", "`)`"},
      {"x y", "operator"},
      {"x = y", "operator"},
      {"x & y", "operator"},
      {"1e", "exponent"},
      {"1.2.3", "decimal point"},
      {"* x", "expected a number"},
      {"1e999", "exponent"},
      {"12345678901234567890", "19 digits"},
      {"x)", "operator"},
      {"1+2+3+4+5+6+7+8+9+10+11+12+13+14+15+16+17+18+19+20+21+22", "too long"},
  };
  for (auto [text, phrase] : cases) {
    const CompiledFormula compiled = compile_formula(text, kXY, op_rows());
    ASSERT_NE(compiled.error, nullptr) << text;
    EXPECT_NE(std::string(compiled.error).find(phrase), std::string::npos) << text << ": " << compiled.error;
  }
}

class EveryAccumulator : public testing::TestWithParam<AccumulatorRow> {};

TEST_P(EveryAccumulator, JoinsWithItsOpAndStartsNeutral) {
  const AccumulatorRow& row = GetParam();
  EXPECT_EQ(find_accumulator(row.name), row.accumulator);
  EXPECT_EQ(&caravan::row(row.accumulator), &accumulator_rows()[size_t(row.accumulator)]);
  EXPECT_EQ(keeps_position(row.accumulator), !row.op.has_value());
  if (!row.op) return;
  EXPECT_TRUE(caravan::row(*row.op).commutative && caravan::row(*row.op).associative);
  const bool logic = caravan::row(*row.op).result == ResultType::logic;
  for (double a : {0.0, 1.0, -2.0, 3.5, kInf, -kInf}) {
    if (logic) a = a != 0;
    EXPECT_EQ(row.combine(row.neutral, a), a) << row.name;
    EXPECT_EQ(row.combine(a, row.neutral), a) << row.name;
    for (double b : {0.0, 1.0, -2.0, kNaN}) {
      const double joined = eval(*row.op, a, b), combined = row.combine(a, b);
      EXPECT_TRUE(joined == combined || (std::isnan(joined) && std::isnan(combined))) << row.name;
    }
  }
  if (row.accumulator == Accumulator::max || row.accumulator == Accumulator::min) {
    EXPECT_TRUE(std::isnan(row.combine(kNaN, 1)) && std::isnan(row.combine(1, kNaN)));
  }
}

// The accumulated value and where the winner was, by the rows.
double accumulate(const AccumulatorRow& row, std::span<const double> body) {
  double total = row.neutral, best = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    if (!keeps_position(row.accumulator)) {
      total = row.combine(total, body[i]);
    } else if (total < 0 || beats(row.accumulator, body[i], best)) {
      total = double(i);
      best = body[i];
    }
  }
  return total;
}

TEST_P(EveryAccumulator, GradientIsTheDerivative) {
  const AccumulatorRow& row = GetParam();
  const std::vector<std::vector<double>> bodies = {
      {2, -3, 0.5, 4}, {2, 0, 0.5, 4}, {0, -3, 0, 4}, {0, 0, 0}, {1.5}, {0}, {-2, -1, -1.5}};
  for (const std::vector<double>& body : bodies) {
    double aux[2] = {0, 0};
    for (int k = 0; k < 2; ++k) {
      if (row.auxiliaries[size_t(k)].accumulator.empty()) continue;
      std::vector<double> values;
      for (double value : body) values.push_back(evaluate(auxiliary_body(row.accumulator, k), std::array{value}));
      const std::optional<Accumulator> accumulator = find_accumulator(row.auxiliaries[size_t(k)].accumulator);
      ASSERT_TRUE(accumulator.has_value());
      aux[k] = accumulate(caravan::row(*accumulator), values);
    }
    double flowing = 0;
    const bool ties = std::set<double>(body.begin(), body.end()).size() < body.size();
    for (size_t i = 0; i < body.size(); ++i) {
      const double chain = 1.5;
      const double got = evaluate(gradient(row.accumulator), std::array{chain, body[i], double(i), aux[0], aux[1]});
      flowing += got;
      const bool selects = row.accumulator == Accumulator::max || row.accumulator == Accumulator::min;
      if (selects && ties) {
        EXPECT_EQ(got, double(i) == aux[0] ? chain : 0) << row.name;
        continue;
      }
      if (!row.op || row.accumulator == Accumulator::or_ || row.accumulator == Accumulator::and_) {
        EXPECT_EQ(got, 0) << row.name;
        continue;
      }
      const double h = 1e-4;
      std::vector<double> up = body, down = body;
      up[i] += h;
      down[i] -= h;
      EXPECT_NEAR(got, chain * (accumulate(row, up) - accumulate(row, down)) / (2 * h), 1e-9)
          << row.name << " point " << i;
    }
    if (row.accumulator == Accumulator::max || row.accumulator == Accumulator::min) {
      EXPECT_EQ(flowing, 1.5) << row.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Accumulators, EveryAccumulator,
                         testing::ValuesIn(accumulator_rows().begin(), accumulator_rows().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Accumulators, SayWhatTheyAllow) {
  const std::set<Accumulator> indexed = {Accumulator::add, Accumulator::max, Accumulator::min};
  for (const AccumulatorRow& row : accumulator_rows()) {
    EXPECT_EQ(row.indexed_write, indexed.count(row.accumulator) > 0) << row.name;
    EXPECT_EQ(row.refuse_second.empty(), row.accumulator != Accumulator::mul) << row.name;
  }
  EXPECT_THROW(auxiliary_body(Accumulator::add, 0), InternalError);
  EXPECT_THROW(auxiliary_body(Accumulator::max, 1), InternalError);
}

TEST(Accumulators, TheFirstOfEqualsStaysAndNaNBeatsAll) {
  for (Accumulator largest : {Accumulator::max, Accumulator::argmax}) {
    EXPECT_TRUE(beats(largest, 2, 1));
    EXPECT_FALSE(beats(largest, 1, 2));
    EXPECT_FALSE(beats(largest, 1, 1));
    EXPECT_TRUE(beats(largest, kNaN, kInf));
    EXPECT_FALSE(beats(largest, kInf, kNaN));
    EXPECT_FALSE(beats(largest, kNaN, kNaN));
  }
  for (Accumulator smallest : {Accumulator::min, Accumulator::argmin}) {
    EXPECT_TRUE(beats(smallest, 1, 2));
    EXPECT_FALSE(beats(smallest, 2, 1));
    EXPECT_FALSE(beats(smallest, 1, 1));
    EXPECT_TRUE(beats(smallest, kNaN, -kInf));
    EXPECT_FALSE(beats(smallest, -kInf, kNaN));
  }
  EXPECT_THROW(beats(Accumulator::add, 1, 2), InternalError);
}

// Precisions.

constexpr DType kAll[] = {DType::boolean, DType::u8,   DType::i32, DType::i64,
                          DType::f16,     DType::bf16, DType::f32, DType::f64};

TEST(Precision, HasNamesAndSizes) {
  const char* names[] = {"bool", "u8", "i32", "i64", "f16", "bf16", "f32", "f64"};
  const int sizes[] = {1, 1, 4, 8, 2, 2, 4, 8};
  for (int i = 0; i < kDTypeCount; ++i) {
    EXPECT_EQ(name(kAll[i]), names[i]);
    EXPECT_EQ(find_dtype(names[i]), kAll[i]);
    EXPECT_EQ(bytes(kAll[i]), sizes[i]);
    EXPECT_EQ(is_float(kAll[i]), i >= 4);
    EXPECT_EQ(is_integer(kAll[i]), i >= 1 && i <= 3);
    EXPECT_TRUE(can_hold(kAll[i], largest(kAll[i]))) << names[i];
    EXPECT_EQ(convert(kAll[i], largest(kAll[i])), largest(kAll[i])) << names[i];
  }
  EXPECT_EQ(find_dtype("float"), std::nullopt);
}

TEST(Precision, PromotesByTheTable) {
  // Rows and columns in the order of kAll; the letter is the index of the result.
  const char* table[] = {"01234567", "11234567", "22234567", "33334567",
                         "44444667", "55556567", "66666667", "77777777"};
  for (int i = 0; i < kDTypeCount; ++i)
    for (int j = 0; j < kDTypeCount; ++j)
      EXPECT_EQ(int(promote(kAll[i], kAll[j])), table[i][j] - '0') << name(kAll[i]) << " with " << name(kAll[j]);
}

TEST(Precision, OfResultsFollowsTheWrittenRules) {
  using D = DType;
  constexpr bool s = false, w = true;  // strong, weak
  struct {
    Op op;
    std::vector<D> operands;
    std::array<bool, 3> weak;
    D result;
  } cases[] = {
      {Op::add, {D::i32, D::f16}, {s, s}, D::f16},
      {Op::add, {D::f16, D::bf16}, {s, s}, D::f32},
      {Op::add, {D::boolean, D::boolean}, {s, s}, D::i32},
      {Op::add, {D::u8, D::u8}, {s, s}, D::u8},
      {Op::max, {D::boolean, D::u8}, {s, s}, D::u8},
      {Op::neg, {D::boolean}, {s}, D::i32},
      {Op::add, {D::u8, D::i32}, {s, w}, D::u8},  // a weak integer takes the tensor's precision
      {Op::add, {D::i64, D::u8}, {w, s}, D::u8},
      {Op::mul, {D::f16, D::f64}, {s, w}, D::f16},  // a weak double too, among floats
      {Op::mul, {D::f32, D::f64}, {w, s}, D::f64},
      {Op::mul, {D::i32, D::f64}, {s, w}, D::f32},  // a weak fraction against integers
      {Op::mul, {D::boolean, D::f64}, {s, w}, D::f32},
      {Op::add, {D::boolean, D::i32}, {s, w}, D::i32},
      {Op::add, {D::i32, D::i32}, {w, w}, D::f32},  // two weak numbers
      {Op::add, {D::f64, D::f64}, {w, w}, D::f32},
      {Op::exp, {D::i64}, {s}, D::f32},
      {Op::exp, {D::bf16}, {s}, D::bf16},
      {Op::exp, {D::boolean}, {s}, D::f32},
      {Op::div, {D::i32, D::i32}, {s, s}, D::f32},
      {Op::div, {D::f64, D::i32}, {s, w}, D::f64},
      {Op::pow, {D::i32, D::i32}, {s, w}, D::f32},
      {Op::floor, {D::i32}, {s}, D::i32},
      {Op::lt, {D::f32, D::f64}, {s, s}, D::boolean},
      {Op::and_, {D::i32, D::f32}, {s, s}, D::boolean},
      {Op::not_, {D::f64}, {s}, D::boolean},
      {Op::where, {D::boolean, D::f16, D::i32}, {s, s, s}, D::f16},
      {Op::where, {D::f64, D::boolean, D::boolean}, {s, s, s}, D::boolean},
      {Op::where, {D::boolean, D::i32, D::f64}, {s, s, w}, D::f32},
      {Op::where, {D::f64, D::i32, D::i32}, {s, w, w}, D::f32},
      {Op::where, {D::boolean, D::u8, D::i32}, {s, s, w}, D::u8},
      {Op::clamp, {D::f16, D::f64, D::i32}, {s, w, w}, D::f16},
  };
  for (const auto& [op, operands, weak, result] : cases)
    EXPECT_EQ(name(result_type(op, operands, std::span(weak).first(operands.size()))), name(result))
        << row(op).name << " of " << name(operands[0]);
  EXPECT_THROW(result_type(Op::add, std::array{D::f32}, std::array{false}), InternalError);

  for (D d : kAll) {
    const D summed = d == D::boolean || d == D::u8 ? D::i32 : d;
    EXPECT_EQ(result_type(Accumulator::add, d), summed);
    EXPECT_EQ(result_type(Accumulator::mul, d), summed);
    EXPECT_EQ(result_type(Accumulator::max, d), d);
    EXPECT_EQ(result_type(Accumulator::min, d), d);
    EXPECT_EQ(result_type(Accumulator::or_, d), D::boolean);
    EXPECT_EQ(result_type(Accumulator::and_, d), D::boolean);
    EXPECT_EQ(result_type(Accumulator::argmax, d), D::i64);
    EXPECT_EQ(result_type(Accumulator::argmin, d), D::i64);
  }
}

struct Half {
  const char* name;
  uint16_t (*to)(double);
  double (*from)(uint16_t);
  uint16_t infinity;
};
constexpr Half kHalves[] = {{"f16", to_f16, from_f16, 0x7c00}, {"bf16", to_bf16, from_bf16, 0x7f80}};

TEST(Precision, HalvesRoundTripOverAllPatterns) {
  for (const Half& half : kHalves)
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const double value = half.from(uint16_t(bits));
      const bool nan = (bits & 0x7fff) > half.infinity;
      ASSERT_EQ(std::isnan(value), nan) << half.name << " " << bits;
      ASSERT_EQ(std::signbit(value), bits >= 0x8000) << half.name << " " << bits;
      if (nan) {
        ASSERT_GT(half.to(value) & 0x7fff, half.infinity) << half.name << " " << bits;
      } else {
        ASSERT_EQ(half.to(value), bits) << half.name;
      }
    }
}

// Between neighbours p < q: the middle goes to the even one, anything nearer to one goes there.
TEST(Precision, HalvesRoundToNearestEvenOnce) {
  for (const Half& half : kHalves)
    for (uint32_t bits = 0; bits + 1 < half.infinity; ++bits)
      for (uint16_t sign : {0, 0x8000}) {
        const uint16_t p = uint16_t(bits | sign), q = uint16_t((bits + 1) | sign);
        const double middle = (half.from(p) + half.from(q)) / 2;
        ASSERT_EQ(half.to(middle), bits % 2 == 0 ? p : q) << half.name << " " << bits;
        ASSERT_EQ(half.to(std::nextafter(middle, 0)), p) << half.name << " " << bits;
        ASSERT_EQ(half.to(std::nextafter(middle, middle * 4)), q) << half.name << " " << bits;
      }
}

TEST(Precision, BFloat16IsTheUpperHalfOfFloat32) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits)
    EXPECT_EQ(from_bf16(uint16_t(bits)), double(std::bit_cast<float>(bits << 16)));
}

TEST(Precision, KnownHalves) {
  struct {
    double value;
    uint16_t bits;
  } cases[] = {{1, 0x3c00},
               {-2, 0xc000},
               {65504, 0x7bff},
               {65519.999, 0x7bff},
               {65520, 0x7c00},
               {1e300, 0x7c00},
               {-1e300, 0xfc00},
               {kInf, 0x7c00},
               {0x1p-24, 0x0001},
               {0x1p-25, 0x0000},
               {0x1.0000000001p-25, 0x0001},
               {0x1.8p-24, 0x0002},
               {0x1p-14, 0x0400},
               {0x1.ffp-15, 0x03fe},
               {-0.0, 0x8000},
               {1e-310, 0x0000},
               {1.0 / 3, 0x3555},
               {1 + 0x1p-11, 0x3c00},
               {1 + 0x1p-11 + 0x1p-40, 0x3c01}};
  for (auto [value, bits] : cases) EXPECT_EQ(to_f16(value), bits) << value;
  // Through float this would round twice, and to the wrong side.
  EXPECT_EQ(to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(to_f16(double(float(1 + 0x1p-11 + 0x1p-40))), 0x3c00);
  EXPECT_EQ(to_bf16(0x1.FFp127), 0x7f80);
  EXPECT_EQ(to_bf16(0x1.FEFFFFFFFFFFFp127), 0x7f7f);
  EXPECT_EQ(to_bf16(1), 0x3f80);
}

TEST(Precision, ConvertsByRuleFive) {
  struct {
    DType dtype;
    double value, result;
  } cases[] = {{DType::i32, 2.9, 2},
               {DType::i32, -2.9, -2},
               {DType::i32, kNaN, 0},
               {DType::i32, 1e20, 2147483647},
               {DType::i32, -1e20, -2147483648.0},
               {DType::i32, kInf, 2147483647},
               {DType::i32, 2147483647.5, 2147483647},
               {DType::i32, -2147483648.5, -2147483648.0},
               {DType::u8, 300, 255},
               {DType::u8, -5, 0},
               {DType::u8, 254.99, 254},
               {DType::u8, kNaN, 0},
               {DType::i64, 1e30, 0x1p63},
               {DType::i64, -kInf, -0x1p63},
               {DType::i64, 9007199254740993.0, 9007199254740992.0},
               {DType::boolean, 0.1, 1},
               {DType::boolean, 0, 0},
               {DType::boolean, -0.0, 0},
               {DType::boolean, kNaN, 1},
               {DType::f32, 0.1, double(0.1f)},
               {DType::f32, 1e40, kInf},
               {DType::f64, 0.1, 0.1},
               {DType::f16, 1e-9, 0},
               {DType::bf16, 1.00390625, 1},
               {DType::bf16, 1.01171875, 1.015625}};
  for (auto [dtype, value, result] : cases) EXPECT_EQ(convert(dtype, value), result) << value << " as " << name(dtype);
  for (DType d : {DType::f16, DType::bf16, DType::f32, DType::f64}) EXPECT_TRUE(std::isnan(convert(d, kNaN)));
}

TEST(Precision, KnowsWhatItCanHold) {
  struct {
    DType dtype;
    double value;
    bool fits;
  } cases[] = {{DType::u8, 255, true},
               {DType::u8, 256, false},
               {DType::u8, 300, false},
               {DType::u8, -1, false},
               {DType::u8, 0.5, false},
               {DType::u8, kNaN, false},
               {DType::boolean, 1, true},
               {DType::boolean, 2, false},
               {DType::boolean, 0.5, false},
               {DType::i32, -2147483648.0, true},
               {DType::i32, 2147483648.0, false},
               {DType::i32, 1.5, false},
               {DType::i32, kInf, false},
               {DType::i64, 0x1p62, true},
               {DType::i64, 0x1p63, false},
               {DType::i64, -0x1p63, true},
               {DType::f16, 65504, true},
               {DType::f16, 65519, true},
               {DType::f16, 65520, false},
               {DType::f16, 1e-9, true},
               {DType::f16, kInf, true},
               {DType::f16, kNaN, true},
               {DType::f32, 1e38, true},
               {DType::f32, 1e40, false},
               {DType::f32, 0.1, true},
               {DType::f32, kNaN, true},
               {DType::bf16, 1e38, true},
               {DType::bf16, 3.4e38, false},
               {DType::f64, 1e300, true},
               {DType::f64, -kInf, true}};
  for (auto [dtype, value, fits] : cases) EXPECT_EQ(can_hold(dtype, value), fits) << value << " as " << name(dtype);
}

TEST(Precision, LoadsWhatItStored) {
  for (DType dtype : kAll) {
    std::vector<std::byte> data(size_t(bytes(dtype)) * 4, std::byte{0x55});
    for (int i : {2, 0, 1}) store(dtype, data.data(), i, i % 2);
    for (int i : {0, 1, 2}) EXPECT_EQ(load(dtype, data.data(), i), i % 2) << name(dtype);
    for (int b = 0; b < bytes(dtype); ++b)
      EXPECT_EQ(data[size_t(3 * bytes(dtype) + b)], std::byte{0x55}) << name(dtype);
  }
}

}  // namespace
}  // namespace caravan
