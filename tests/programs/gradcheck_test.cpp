// One test per gradient check of caravan/check, and what a list of smooth cases cannot say: ties, zeros and refusals.
#include "caravan/check/gradcheck.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "caravan/autodiff/grad.h"
#include "caravan/base/error.h"
#include "caravan/ops/op.h"
#include "caravan/runtime/context.h"
#include "checked_device.h"

namespace caravan {
namespace {

class Gradient : public testing::TestWithParam<GradientCase> {};

TEST_P(Gradient, EqualsDifferences) {
  const CaseResult result = run(GetParam());
  EXPECT_TRUE(result.passed) << to_string(GetParam()) << ": worst error " << result.worst << " of " << result.checked
                             << " elements " << result.refusal;
}

std::string test_name(const testing::TestParamInfo<GradientCase>& info) {
  std::string out = to_string(info.param);
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return out;
}
INSTANTIATE_TEST_SUITE_P(Of, Gradient, testing::ValuesIn(gradient_cases()), test_name);

TEST(GradientCases, CoverEveryOperandOfEveryOpTwice) {
  size_t operands = 0;
  for (const OpRow& row : op_rows()) operands += size_t(row.arity);
  EXPECT_EQ(op_gradient_cases().size(), 2 * operands);
}

TEST(GradientCases, ReportWhatFails) {
  // The gradient of stop_gradient(x) * x is not its derivative.
  const GradientCase wrong{"wrong", "half of a square", 1, [] {
                             Tensor x = param("x", {1, 2});
                             return stop_gradient(x) * x;
                           }};
  EXPECT_FALSE(run(wrong).passed);
  EXPECT_GT(run(wrong).worst, 0.1);
  const GradientCase refused{"wrong", "two sizes", 1, [] { return param("x", {1, 2}) + param("y", {1, 2, 3}); }};
  EXPECT_FALSE(run(refused).passed);
  EXPECT_NE(run(refused).refusal, "");
  const GradientCase nothing{"wrong", "no parameters", 1, [] { return tensor({1, 2}) + 1; }};
  EXPECT_FALSE(run(nothing).passed);
}

TEST(Ties, OfAnOverlappingPaddedMaxGoToTheFirstWinner) {
  Tensor x = param("x", {1, 1, 0, 1, 1});
  Tensor y = einmax("2*o<1+k => o", x, {{"k", 3}});  // windows [. 0 1] [1 2 3] [3 4 .], the outside never wins
  Context ctx(checked());
  EXPECT_EQ(ctx.eval(y).values(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(ctx.eval(grad(sum(y), x)).values(), (std::vector<double>{1, 1, 0, 1, 0}));
}

TEST(Ties, OfAllNegativeValuesNeverGoToThePadding) {
  Tensor x = param("x", {-2, -2, -3});
  Tensor y = einmax("o<1+k => o", x, {{"k", 3}});
  Context ctx(checked());
  EXPECT_EQ(ctx.eval(y).values(), (std::vector<double>{-2, -2, -2}));
  EXPECT_EQ(ctx.eval(grad(sum(y), x)).values(), (std::vector<double>{2, 1, 0}));
}

TEST(Ties, OfMinGoToTheFirstToo) {
  Tensor x = param("x", {3, 1, 1});
  Context ctx(checked());
  EXPECT_EQ(ctx.eval(grad(smallest(x), x)).values(), (std::vector<double>{0, 1, 0}));
}

TEST(Product, WithZerosHasItsExactGradient) {
  struct {
    std::vector<double> x, gradient;
  } rows[] = {
      {{2, 3, 4}, {12, 8, 6}}, {{2, 0, 4}, {0, 8, 0}}, {{0, 0, 4}, {0, 0, 0}}, {{0, 0, 0}, {0, 0, 0}}, {{0}, {1}},
  };
  for (const auto& row : rows) {
    Tensor x = param("x", Array::vector(row.x));
    Context ctx(checked());
    EXPECT_EQ(ctx.eval(grad(product(x), x)).values(), row.gradient);
  }
}

TEST(Product, RefusesItsSecondDerivative) {
  Tensor x = param("x", {2, 3, 4});
  try {
    grad(sum(grad(product(x), x)), x);
    ADD_FAILURE() << "not refused";
  } catch (const GradientError& error) {
    EXPECT_NE(std::string(error.what()).find("exp(sum(log(x)))"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace caravan
