// Formulas as text.
#include <gtest/gtest.h>

#include <cmath>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"
#include "ops/formulas.h"

namespace caravan {
namespace {

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

}  // namespace
}  // namespace caravan
