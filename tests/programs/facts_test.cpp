// Values and gradients that the papers and guides behind this library print, and what PyTorch computes: one test each,
// written as a user would.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "programs/in_double.h"

namespace caravan {
namespace {

TEST(Facts, TheGradientExampleOfThePaper) {
  Tensor x = param("x", 2.0), y = param("y", 3.0), z = (x + y) * y;
  auto [dx, dy] = grad(z, x, y);
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(z).item(), 15);
  EXPECT_EQ(ctx.eval(dx).item(), 3);
  EXPECT_EQ(ctx.eval(dy).item(), 8);
  std::ostringstream graph;
  print_graph(graph, z, ctx);
  EXPECT_EQ(graph.str(),
            "[1] x <- []: data=2, grad=3\n[2] y <- []: data=3, grad=8\n[3] add <- [1; 2]: data=5, grad=3\n[4] mul <- "
            "[3; 2]: data=15, grad=1\n");
}

TEST(Facts, AParabolaAndItsDerivatives) {
  Tensor x = param("x", 5.0), f = 3 * square(x) - 4 * x + 5, df = grad(f, x), ddf = grad(df, x);
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(f).item(), 60);
  EXPECT_EQ(ctx.eval(df).item(), 26);
  EXPECT_EQ(ctx.eval(ddf).item(), 6);
}

TEST(Facts, OneStepDownTheGradient) {
  auto leaf = [](const char* name, double value) { return param(name, Array::scalar(value, DType::f64)); };
  Tensor a = leaf("a", 2), b = leaf("b", -3), c = leaf("c", 10), f = leaf("f", -2), l = (a * b + c) * f;
  Context ctx(kInDouble);
  Routine step = ctx.compile(train_step(l, sgd({.lr = 0.1})) & observe(grad(l, {a, b, c, f})));
  auto slopes = grad(l, {a, b, c, f});
  Values got;
  for (const Tensor& slope : slopes) got.push_back(ctx.eval(slope).item());
  expect_near(got, {6, -4, -2, 4});
  step.run();
  EXPECT_EQ(step.read(l).item(), -8);
  EXPECT_NEAR(ctx.eval(l).item(), -15.744, 1e-12);
}

TEST(Facts, ANeuron) {
  Tensor w = param("w", {-3, 1}), x = param("x", {2, 0}), b = param("b", Array::scalar(6.7, DType::f64)),
         y = dot(w, x) + b;
  auto [dw, dx, db] = grad(y, w, x, b);
  Context ctx(kInDouble);
  EXPECT_NEAR(ctx.eval(y).item(), 0.7, 1e-12);
  expect_near(ctx.eval(dw), {2, 0});
  expect_near(ctx.eval(dx), {-3, 1});
  expect_near(ctx.eval(db), {1});
}

TEST(Facts, TheExpressionOfMicrograd) {
  Tensor a = param("a", -4.0), b = param("b", 2.0);
  Tensor c = a + b, d = a * b + pow(b, 3);
  c = c + c + 1;
  c = c + 1 + c + (-a);
  d = d + d * 2 + relu(b + a);
  d = d + 3 * d + relu(b - a);
  Tensor e = c - d, f = square(e), g = f / 2.0;
  g = g + 10.0 / f;
  auto [da, db] = grad(g, a, b);
  Context ctx(kInDouble);
  EXPECT_NEAR(ctx.eval(g).item(), 24.7041, 5e-5);
  EXPECT_NEAR(ctx.eval(da).item(), 138.8338, 5e-5);
  EXPECT_NEAR(ctx.eval(db).item(), 645.5773, 5e-5);
}

TEST(Facts, MaxPoolingSendsGradientToTheMaxima) {
  Tensor x = param("x", Array::matrix({{1, 9, 2, 8}, {3, 4, 5, 6}, {7, 1, 0, 2}, {3, 2, 6, 1}}));
  Tensor pooled = einmax("2*oh+kh, 2*ow+kw => oh, ow", x, {{"kh", 2}, {"kw", 2}}), total = sum(pooled);
  Context ctx(kInDouble);
  expect_near(ctx.eval(pooled), {9, 8, 7, 6});
  EXPECT_EQ(ctx.eval(total).item(), 30);
  expect_near(ctx.eval(grad(total, x)), {0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0});
}

TEST(Facts, OverlappingMax) {
  Tensor x = param("x", {5, 3, 1, 2, 5}), y = einmax("o+k => o", x, {{"k", 2}});
  Context ctx(kInDouble);
  expect_near(ctx.eval(y), {5, 3, 2, 5});
  EXPECT_EQ(ctx.eval(sum(y)).item(), 15);
  expect_near(ctx.eval(grad(sum(y), x)), {1, 1, 0, 1, 1});
}

TEST(Facts, Tropical) {
  Tensor x = tensor(count_from(0, "4,4")), kernel = matrix({{0, 1}, {2, 3}});
  Context ctx(kInDouble);
  expect_near(ctx.eval(tropical("2*oh+kh, 2*ow+kw; kh, kw => oh, ow", x, kernel)), {8, 10, 16, 18});
}

TEST(Facts, SineOverAConcatenation) {
  Tensor a = param("a", {1, 2, 3}), b = param("b", {4, 5}), y = sum(sin(concat("a; b => a^b", a, b)));
  auto [da, db] = grad(y, a, b);
  Context ctx(kInDouble);
  EXPECT_NEAR(ctx.eval(y).item(), 0.1762, 5e-5);
  expect_near(ctx.eval(da), {std::cos(1), std::cos(2), std::cos(3)});
  expect_near(ctx.eval(db), {std::cos(4), std::cos(5)});
}

TEST(Facts, SamePaddedMaxAndSumInOneProgramOutsideCountsForNeither) {
  Tensor x = tensor(count_from(-16, "4,4"));
  Tensor most = einmax("oh = + kh, ow = + kw => oh, ow", x, {{"kh", 3}, {"kw", 3}}),
         total = einsum("oh = + kh, ow = + kw => oh, ow", x, {{"kh", 3}, {"kw", 3}});
  Context ctx(kInDouble);
  Routine both = ctx.compile(observe({most, total}));
  Values first;
  for (int run = 0; run < 2; ++run) {
    both.run();
    EXPECT_EQ(both.read(most).at({0, 0}), -11);
    EXPECT_EQ(both.read(most).at({1, 1}), -6);
    EXPECT_EQ(both.read(total).at({0, 0}), -54);
    EXPECT_EQ(both.read(total).at({1, 1}), -99);
    Values now = both.read(most).values(), sums = both.read(total).values();
    now.insert(now.end(), sums.begin(), sums.end());
    if (run == 0) first = now;
    EXPECT_EQ(now, first);
  }
}

// Pairs (x0, x1) turn by the angle position * base^(-pair / half); x is one row of `2 half` elements per position.
Tensor rope(const Tensor& x, int64_t half, double base) {
  Dim positions;
  Tensor pairs = einsum("t | p&two => t | p, two", x, {{"two", 2}, {"t", positions}});
  Tensor angle = einsum("t; p => t | p", iota(positions), pow(base, -iota(half) / double(half)));
  Tensor turn = stack({stack({cos(angle), -sin(angle)}), stack({sin(angle), cos(angle)})});
  return einsum("t | r, c, p; t | p, c => t | p&r", turn, pairs);
}

TEST(Facts, RotaryPositionsOnInterleavedPairs) {
  Tensor x = tensor(Array(parse_shape("2|4"), {5, 6, 7, 8, 5, 6, 7, 8}));
  Context ctx(kInDouble);
  Values y = ctx.eval(rope(x, 2, 10000)).values();
  expect_near({y.begin(), y.begin() + 4}, {5, 6, 7, 8});
  expect_near({y.begin() + 4, y.end()}, {-2.3473, 7.4492, 6.9197, 8.0696}, 5e-5);
}

TEST(Facts, LayerNormHasMeanZeroAndVarianceOneOverTheNamedAxes) {
  auto layer_norm = [](const Tensor& x) {
    Dim n;
    Tensor centred = x - einsum("... | c => ... | 0", x, {{"c", n}}) / n;
    return centred * rsqrt(einsum("... | c => ... | 0", square(centred)) / n + 1e-9);
  };
  Tensor x = normal("x", {.batch = {3, 2}, .output = {64}, .step = 0}) * 4 + 7, y = layer_norm(x);
  Context ctx(kInDouble);
  EXPECT_EQ(to_string(ctx.shape(y)), "3,2|64");
  Array values = ctx.eval(y);
  for (int64_t row = 0; row < 6; ++row) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < 64; ++c) mean += values.at(row * 64 + c) / 64;
    for (int64_t c = 0; c < 64; ++c) variance += std::pow(values.at(row * 64 + c) - mean, 2) / 64;
    EXPECT_NEAR(mean, 0, 1e-12);
    EXPECT_NEAR(variance, 1, 1e-9);
  }
}

TEST(Facts, BatchNormTrainsOnTheBatchAndEvaluatesOnRunningStatistics) {
  struct BatchNorm {
    Tensor mean = state("bn.mean", {.batch = {}, .input = Extents{}, .output = {2}, .init = zeros()});
    Tensor variance = state("bn.variance", {.batch = {}, .input = Extents{}, .output = {2}, .init = ones()});
    struct Statistics {
      Tensor mean, variance;
    };
    Statistics batch(const Tensor& x) const {
      Dim n;
      Tensor m = einsum("n | c => c", x, {{"n", n}}) / n;
      return {m, einsum("n | c => c", square(x - m)) / n};
    }
    Tensor normalise(const Tensor& x, const Statistics& s) const { return (x - s.mean) * rsqrt(s.variance + 1e-12); }
    Tensor train(const Tensor& x) const { return normalise(x, batch(x)); }
    Tensor evaluate(const Tensor& x) const { return normalise(x, {mean, variance}); }
    Program track(const Tensor& x) const {
      Statistics now = batch(x);
      return assign(mean, 0.5 * mean + 0.5 * now.mean) & assign(variance, 0.5 * variance + 0.5 * now.variance);
    }
  } norm;
  Tensor x = tensor(Array(parse_shape("4|2"), {1, 10, 3, 10, 5, 30, 7, 30}));
  Tensor y = norm.train(x);
  Context ctx(kInDouble);
  Routine train = ctx.compile(norm.track(x) & observe(y));
  for (int step = 0; step < 60; ++step) train.run();
  const double a = 1 / std::sqrt(5.0);
  expect_near(train.read(y), {-3 * a, -1, -a, -1, a, 1, 3 * a, 1}, 1e-9);
  expect_near(ctx.read("bn.mean"), {4, 20}, 1e-9);
  expect_near(ctx.read("bn.variance"), {5, 100}, 1e-9);
  Tensor one = tensor(Array(parse_shape("1|2"), {9, 0}));  // a batch of one has no variance of its own
  expect_near(ctx.eval(norm.evaluate(one)), {5 * a, -2}, 1e-9);
}

TEST(Facts, ArithmeticIsSimplifiedOnlyToSomethingEqual) {
  Tensor x = param("x", Array::scalar(0.3, DType::f64)), a = param("a", 7.0), b = param("b", 3.0), c = param("c", 11.0);
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval((a / b) / c).item(), 7.0 / 3.0 / 11.0);
  EXPECT_EQ(ctx.eval(1 - (2 + x)).item(), 1 - (2 + 0.3));
  EXPECT_EQ(ctx.eval((1 - 2) + x).item(), (1 - 2) + 0.3);
  EXPECT_EQ(ctx.eval(1e300 * (x * 1e300) * 1e-300).item(), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace caravan
