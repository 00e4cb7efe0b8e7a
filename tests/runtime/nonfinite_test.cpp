// NaN and infinities: the first operation that made one is named, forward or backward, in the precision that made it.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "this_device.h"

namespace caravan {
namespace {

std::string at_line(int line) { return "nonfinite_test.cpp:" + std::to_string(line); }
std::string place(const Nonfinite& found) {
  std::string text = to_string(found.where);
  return text.substr(text.rfind('/') + 1);
}

TEST(Nonfinite, ALogarithmOfANegativeNumberForward) {
  Tensor x = param("x", Array(parse_shape("2,3"), {1, 2, 3, 4, -5, -6}));
  Tensor y = log(x);
  const std::string line = at_line(__LINE__ - 1);
  Context ctx(kHere);
  auto found = find_nonfinite(train_step(sum(square(y)), sgd({.lr = 0.1})), ctx);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->label, "log(x)");
  EXPECT_EQ(place(*found), line);
  EXPECT_FALSE(found->backward);
  EXPECT_EQ(to_string(found->shape), "2,3");
  EXPECT_EQ(found->count, 2);
  EXPECT_EQ(found->nans, 2);
  EXPECT_EQ(found->first, (std::vector<int64_t>{1, 1}));
  EXPECT_TRUE(std::isnan(found->value));
  ASSERT_EQ(found->reads.size(), 1u);
  EXPECT_EQ(found->reads[0].label, "x");
  EXPECT_EQ(found->reads[0].low, -6);
  EXPECT_EQ(found->reads[0].high, 4);
  EXPECT_EQ(ctx.read(x).values(), (std::vector<double>{1, 2, 3, 4, -5, -6})) << "no state is changed";
  std::ostringstream text;
  text << *found;
  for (const char* phrase : {"log(x) (forward)", "nonfinite_test.cpp:", "computes  += log(x)",
                             "nan at [1, 1]; 2 of 6 elements", "2,3, f32", "reads     x in -6 .. 4"})
    EXPECT_NE(text.str().find(phrase), std::string::npos) << phrase << " is not in\n" << text.str();
}

TEST(Nonfinite, ASlopeThatIsInfiniteBackward) {
  Tensor x = param("x", {4, 0, 1});
  Tensor y = sqrt(x);
  const std::string line = at_line(__LINE__ - 1);
  Context ctx(kHere);
  EXPECT_FALSE(find_nonfinite(observe(sum(y)), ctx)) << "forward it is finite";
  auto found = find_nonfinite(observe(grad(sum(y), x)), ctx);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->backward);
  EXPECT_EQ(found->label, "d x");
  EXPECT_EQ(place(*found), line) << "the line of the root";
  EXPECT_EQ(found->first, (std::vector<int64_t>{1}));
  EXPECT_TRUE(std::isinf(found->value));
  EXPECT_EQ(found->nans, 0);
}

TEST(Nonfinite, ZeroByZeroInTheBackwardOnly) {
  auto f = custom_gradient([](const Tensor& x) { return square(x); },
                           [](const Tensor& g, const Tensor& x) { return g * 2 * x * x / x; });
  Tensor x = param("x", {1, 0}), loss = sum(f(x)) * 3;
  Context ctx(kHere);
  EXPECT_FALSE(find_nonfinite(observe(loss), ctx));
  auto found = find_nonfinite(train_step(loss, sgd({.lr = 0.1})), ctx);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->backward);
  EXPECT_EQ(found->label, "mul(..) / x");
  EXPECT_TRUE(std::isnan(found->value));
  EXPECT_EQ(found->first, (std::vector<int64_t>{1}));
}

TEST(Nonfinite, AnOverflowOfThePrecisionNotOfTheNumber) {
  auto overflow = [](DType dtype, const ContextOptions& options) {
    Tensor x = param("x", Array::vector({1, 100}, dtype)), y = exp(x);
    Context ctx(options);
    return find_nonfinite(observe(sum(y / y)), ctx);
  };
  auto found = overflow(DType::f32, {.device = "cpu"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->label, "exp(x)") << "not the quotient, which is NaN";
  EXPECT_EQ(found->value, INFINITY);
  EXPECT_EQ(found->first, (std::vector<int64_t>{1}));
  EXPECT_FALSE(overflow(DType::f64, {.device = "cpu"}));
  EXPECT_FALSE(overflow(DType::f32, {.device = "interp"})) << "the interpreter computes in double";
}

TEST(Nonfinite, AnInfinityToMaskWithIsMeant) {
  Tensor x = param("x", {1, 2, 3}), masked = where(x > 5, x, -INFINITY), kept = where(x > 2, x, -INFINITY);
  Context ctx(kHere);
  EXPECT_FALSE(find_nonfinite(observe(sum(exp(kept - largest(kept)))), ctx));
  auto found = find_nonfinite(observe(sum(exp(masked - largest(masked)))), ctx);
  ASSERT_TRUE(found) << "-inf - -inf";
  EXPECT_EQ(found->label, "where(..) - largest");
  EXPECT_EQ(found->nans, 3);
}

TEST(Nonfinite, ALeafThatCameWithIt) {
  Tensor x = param("x", {1, 2}), d = tensor({1, NAN}), m = tensor({-INFINITY, 0});
  Context ctx(kHere);
  auto found = find_nonfinite(observe(sum(x * d)), ctx);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->label, "data");
  EXPECT_TRUE(found->formula.empty());
  EXPECT_EQ(find_nonfinite(observe(sum(x + m)), ctx)->label, "data") << "where nothing else is to blame";
  EXPECT_EQ(find_nonfinite(observe(log(x - 3) + sum(exp(x + m))), ctx)->label, "log(sub(..))");
}

TEST(Nonfinite, NoneFound) {
  Index batch("batch", 2);
  Tensor x = tensor(Array(parse_shape("2|3"), {1, 2, 3, 4, 5, 6}))[batch],
         w = param("w", {.input = {3}, .output = {2}});
  Context ctx(kHere);
  EXPECT_FALSE(find_nonfinite(train_step(sum(square(w(x))), adam({.lr = 0.1})), ctx, {{batch, 1}}));
}

}  // namespace
}  // namespace caravan
