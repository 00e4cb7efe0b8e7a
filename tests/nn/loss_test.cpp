// Softmax and losses.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/layers.h"

namespace caravan {
namespace {

TEST(Softmax, OverTheLastAxisAndOverNamedOnes) {
  Array x = drawn("x", "2|3,4");
  Table t(x);
  Context ctx(kInDouble);
  auto exps = [&](int64_t b, int64_t h) {
    double sum = 0;
    for (int w = 0; w < 4; ++w) sum += std::exp(t(b, h, w));
    return sum;
  };
  expect_each(ctx.eval(softmax(tensor(x))), "2|3,4",
              [&](auto& i) { return std::exp(t(i[0], i[1], i[2])) / exps(i[0], i[1]); });
  expect_each(ctx.eval(log_softmax(tensor(x))), "2|3,4",
              [&](auto& i) { return t(i[0], i[1], i[2]) - std::log(exps(i[0], i[1])); });
  expect_each(ctx.eval(softmax("... | h, w => ... | 0, 0", tensor(x))), "2|3,4", [&](auto& i) {
    double sum = 0;
    for (int h = 0; h < 3; ++h) sum += exps(i[0], h);
    return std::exp(t(i[0], i[1], i[2])) / sum;
  });
}

TEST(Softmax, IsStableForLargeLogits) {
  Context ctx(kInDouble), cpu({.seed = 5, .device = "cpu", .compiler_flags = {"-O0"}});
  Tensor x = param("x", Array(parse_shape("2|3"), {1e4, -1e4, 0, -1e4, -1e4, -1e4}));
  for (Context* c : {&ctx, &cpu}) {
    expect_near(c->eval(softmax(x)), {1, 0, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0}, 1e-7);
    expect_near(c->eval(log_softmax(x)), {0, -2e4, -1e4, -std::log(3.0), -std::log(3.0), -std::log(3.0)}, 1e-6);
    Tensor loss = cross_entropy(x, ids("2|", {1, 2}), {.reduction = Reduction::sum});
    EXPECT_NEAR(c->eval(loss).item(), 2e4 + std::log(3.0), 2e-3);
    expect_near(c->eval(grad(loss, x)), {1, -1, 0, 1 / 3.0, 1 / 3.0, -2 / 3.0}, 1e-6);
    Tensor both =
        binary_cross_entropy(x, tensor(Array(parse_shape("2|3"), {1, 0, 1, 1, 0, 0})), {.reduction = Reduction::sum});
    EXPECT_NEAR(c->eval(both).item(), 1e4 + std::log(2.0), 2e-3);
    expect_near(c->eval(grad(both, x)), {0, 0, -0.5, -1, 0, 0}, 1e-6);
  }
}

// PyTorch's formulas, position by position.
struct CrossEntropy {
  Table logits{drawn("logits", "4|3")};
  Values weights = {0.5, 1, 2};
  double logp(int64_t n, int64_t c) const {
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += std::exp(logits(n, k));
    return logits(n, c) - std::log(sum);
  }
  double smooth(int64_t n, const Values& w) const {
    double sum = 0;
    for (int c = 0; c < 3; ++c) sum -= w[size_t(c)] * logp(n, c);
    return sum / 3;
  }
};

TEST(CrossEntropy, OfIds) {
  CrossEntropy ce;
  Tensor x = drawn_tensor("logits", "4|3"), y = ids("4|", {2, 0, -1, 1});
  const int64_t target[] = {2, 0, -1, 1};
  const Values one(3, 1);
  for (bool weighted : {false, true})
    for (double smoothing : {0.0, 0.2}) {
      const Values& w = weighted ? ce.weights : one;
      double total = 0, count = 0;
      for (int64_t n : {0, 1, 3}) {
        const double wn = w[size_t(target[n])];
        total += (1 - smoothing) * -wn * ce.logp(n, target[n]) + smoothing * ce.smooth(n, w), count += wn;
      }
      CrossEntropyOptions options{.label_smoothing = smoothing, .ignore = -1};
      if (weighted) options.class_weights = tensor({0.5, 1, 2});
      Context ctx(kInDouble);
      EXPECT_NEAR(ctx.eval(cross_entropy(x, y, options)).item(), total / count, kTolerance);
      EXPECT_NEAR(ctx.eval(nll(log_softmax(x), y, options)).item(), total / count, kTolerance);
      options.reduction = Reduction::sum;
      EXPECT_NEAR(ctx.eval(cross_entropy(x, y, options)).item(), total, kTolerance);
      options.reduction = Reduction::none;
      Array each = ctx.eval(cross_entropy(x, y, options));
      EXPECT_EQ(to_string(each.shape()), "4|");
      EXPECT_EQ(each.at(2), 0);
    }
  Context ctx(kInDouble);
  double all = 0;
  for (int n = 0; n < 4; ++n) all -= ce.logp(n, n % 3);
  EXPECT_NEAR(ctx.eval(cross_entropy(x, ids("4|", {0, 1, 2, 0}))).item(), all / 4, kTolerance);
}

TEST(CrossEntropy, OfSequencesIsTheMeanOverAllPositions) {
  Table t(drawn("x", "2,3|4"));
  const Values y = {0, 1, 2, 3, 3, 3};
  double total = 0;
  for (int n = 0; n < 6; ++n) {
    double sum = 0;
    for (int c = 0; c < 4; ++c) sum += std::exp(t(n / 3, n % 3, c));
    total += std::log(sum) - t(n / 3, n % 3, y[size_t(n)]);
  }
  Context ctx(kInDouble);
  EXPECT_NEAR(ctx.eval(cross_entropy(drawn_tensor("x", "2,3|4"), ids("2,3|", y))).item(), total / 6, kTolerance);
}

TEST(CrossEntropy, OfDistributions) {
  CrossEntropy ce;
  const Values p = {0.2, 0.3, 0.5, 1, 0, 0, 0, 0.5, 0.5, 0.1, 0.8, 0.1};
  Tensor x = drawn_tensor("logits", "4|3"), y = tensor(Array(parse_shape("4|3"), p, kDouble));
  double total = 0;
  for (int n = 0; n < 4; ++n)
    for (int c = 0; c < 3; ++c) total -= ce.weights[size_t(c)] * ce.logp(n, c) * (0.9 * p[size_t(n * 3 + c)] + 0.1 / 3);
  Context ctx(kInDouble);
  EXPECT_NEAR(ctx.eval(cross_entropy(x, y, {.class_weights = tensor({0.5, 1, 2}), .label_smoothing = 0.1})).item(),
              total / 4, kTolerance);
  EXPECT_REFUSED(cross_entropy(x, y, {.ignore = -1}), ".ignore is an id");
}

TEST(Losses, AreTheirFormulas) {
  Table x(drawn("x", "2|3")), y(drawn("y", "2|3"));
  const Values w = {0.5, 1, 2}, s = {1, -1, 1, -1, -1, 1};
  struct Row {
    std::function<Tensor(Operand, Operand, const LossOptions&)> loss;
    std::function<double(double, double)> f;
    bool by_count;  // of a weighted mean
  } rows[] = {
      {[](Operand a, Operand b, const LossOptions& o) { return mse(a, b, o); },
       [](double a, double b) { return (a - b) * (a - b); }, false},
      {[](Operand a, Operand b, const LossOptions& o) { return mae(a, b, o); },
       [](double a, double b) { return std::abs(a - b); }, false},
      {[](Operand a, Operand b, const LossOptions& o) { return huber(a, b, 0.5, o); },
       [](double a, double b) {
         return std::abs(a - b) <= 0.5 ? (a - b) * (a - b) / 2 : 0.5 * (std::abs(a - b) - 0.25);
       },
       false},
      {[](Operand a, Operand b, const LossOptions& o) { return hinge(a, b, o); },
       [](double a, double b) { return std::max(0.0, 1 - a * b); }, false},
      {[](Operand a, Operand b, const LossOptions& o) { return binary_cross_entropy(a, b, o); },
       [](double a, double b) {
         return -(b * std::log(1 / (1 + std::exp(-a))) + (1 - b) * std::log(1 - 1 / (1 + std::exp(-a))));
       },
       true},
  };
  Tensor tx = drawn_tensor("x", "2|3"), ty = drawn_tensor("y", "2|3");
  Context ctx(kInDouble);
  for (auto& row : rows) {
    double total = 0, weighted = 0, weights = 0;
    for (size_t i = 0; i < 6; ++i) {
      const double f = row.f(x.values[i], y.values[i]);
      total += f, weighted += w[i % 3] * f, weights += w[i % 3];
    }
    EXPECT_NEAR(ctx.eval(row.loss(tx, ty, {})).item(), total / 6, kTolerance);
    EXPECT_NEAR(ctx.eval(row.loss(tx, ty, {.reduction = Reduction::sum})).item(), total, kTolerance);
    EXPECT_NEAR(ctx.eval(row.loss(tx, ty, {.reduction = Reduction::batch_mean})).item(), total / 2, kTolerance);
    EXPECT_EQ(to_string(ctx.shape(row.loss(tx, ty, {.reduction = Reduction::none}))), "2|3");
    EXPECT_NEAR(ctx.eval(row.loss(tx, ty, {.weights = tensor({0.5, 1, 2})})).item(),
                weighted / (row.by_count ? 6 : weights), kTolerance);
  }
  // One weight for each example.
  Tensor each = tensor(Array(parse_shape("2|"), {3, 1}, kDouble));
  double top = 0, bottom = 0;
  for (size_t i = 0; i < 6; ++i) (i < 3 ? top : bottom) += std::pow(x.values[i] - y.values[i], 2);
  EXPECT_NEAR(ctx.eval(mse(tx, ty, {.weights = each})).item(), (3 * top + bottom) / 12, kTolerance);
}

TEST(Losses, BinaryCrossEntropyIsAccurateInSinglePrecision) {
  for (double x : {10.0, 12.0, 15.0, 30.0})
    for (double sign : {1.0, -1.0}) {
      const double loss =
          Context({.device = "cpu", .compiler_flags = {"-O0"}})
              .eval(binary_cross_entropy(number(sign * x, DType::f32), number(sign > 0 ? 1 : 0, DType::f32)))
              .item();
      EXPECT_NEAR(loss / std::log1p(std::exp(-x)), 1, 1e-6) << sign * x;
    }
}

}  // namespace
}  // namespace caravan
