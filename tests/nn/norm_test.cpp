// Norms, and the statistics that a batch norm keeps.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "nn/layers.h"

namespace caravan {
namespace {

void expect_normal(const Values& group) {
  const double n = double(group.size()), mean = std::accumulate(group.begin(), group.end(), 0.0) / n;
  double variance = 0;
  for (double v : group) variance += (v - mean) * (v - mean) / n;
  EXPECT_NEAR(mean, 0, 1e-12);
  EXPECT_NEAR(variance, 1, 1e-9);
}
Tensor far_from_normal(const std::string& shape) { return 3 * drawn_tensor("x", shape) + 7; }

TEST(LayerNorm, HasMeanZeroAndVarianceOneOverTheLastAxis) {
  Context ctx(kInDouble);
  Table y(ctx.eval(LayerNorm("ln", {.epsilon = 1e-12})(far_from_normal("2,3|5,8"))));
  for (int b = 0; b < 2; ++b)
    for (int t = 0; t < 3; ++t)
      for (int h = 0; h < 5; ++h) {
        Values group;
        for (int c = 0; c < 8; ++c) group.push_back(y(b, t, h, c));
        expect_normal(group);
      }
  EXPECT_EQ(to_string(ctx.read("ln.weight").shape()), "8");
}

TEST(LayerNorm, ScalesAndShiftsEachChannelWithPyTorchsEpsilon) {
  LayerNorm norm("ln", {.dtype = kDouble});
  Table t(drawn("x", "3|4"));
  Context ctx(kInDouble);
  ctx.compile(observe(norm(drawn_tensor("x", "3|4"))));
  ctx.write("ln.weight", Array::vector({1, 2, 3, 4}, kDouble)),
      ctx.write("ln.bias", Array::vector({5, 6, 7, 8}, kDouble));
  expect_each(ctx.eval(norm(drawn_tensor("x", "3|4"))), "3|4", [&](auto& i) {
    double mean = 0, variance = 0;
    for (int c = 0; c < 4; ++c) mean += t(i[0], c) / 4;
    for (int c = 0; c < 4; ++c) variance += std::pow(t(i[0], c) - mean, 2) / 4;
    return (t(i[0], i[1]) - mean) / std::sqrt(variance + 1e-5) * double(i[1] + 1) + double(i[1] + 5);
  });
}

TEST(LayerNorm, FollowsALinearMapOfSeveralAxes) {  // the parameters stay one for each channel
  Context ctx(kInDouble);
  Tensor y = LayerNorm("ln")(Linear("fc", {.output = {3, 4}})(drawn_tensor("x", "2|5")));
  EXPECT_EQ(to_string(ctx.shape(y)), "2|3,4");
  ctx.compile(observe(y));
  EXPECT_EQ(to_string(ctx.read("ln.bias").shape()), "4");
}

TEST(Normalized, IsOverTheNamedAxes) {
  Context ctx(kInDouble);
  Table y(ctx.eval(normalized("... | h, w, c => ... | 0, 0, c", far_from_normal("2|3,4,5"), 1e-12)));
  for (int b = 0; b < 2; ++b)
    for (int c = 0; c < 5; ++c) {
      Values group;
      for (int h = 0; h < 3; ++h)
        for (int w = 0; w < 4; ++w) group.push_back(y(b, h, w, c));
      expect_normal(group);
    }
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  Table t(drawn("x", "3|4"));
  Context ctx(kInDouble);
  expect_each(ctx.eval(RmsNorm("rms", {.dtype = kDouble})(drawn_tensor("x", "3|4"))), "3|4", [&](auto& i) {
    double square = 0;
    for (int c = 0; c < 4; ++c) square += std::pow(t(i[0], c), 2) / 4;
    return t(i[0], i[1]) / std::sqrt(square + 1e-5);
  });
}

TEST(GroupNorm, IsOverTheChannelsOfAGroupAndTheImage) {
  Context ctx(kInDouble);
  Table y(ctx.eval(GroupNorm("gn", 3, {.epsilon = 1e-12})(far_from_normal("2|4,5,6"))));
  for (int b = 0; b < 2; ++b)
    for (int g = 0; g < 3; ++g) {
      Values group;
      for (int h = 0; h < 4; ++h)
        for (int w = 0; w < 5; ++w)
          for (int c = 2 * g; c < 2 * g + 2; ++c) group.push_back(y(b, h, w, c));
      expect_normal(group);
    }
  EXPECT_EQ(to_string(ctx.read("gn.weight").shape()), "6");
}

TEST(BatchNorm, HasMeanZeroAndVarianceOneForEachChannelInTraining) {
  Context ctx(kInDouble);
  Table images(ctx.eval(BatchNorm2d("bn", {.epsilon = 1e-12})(far_from_normal("3|4,5,2"), training())));
  Table steps(ctx.eval(BatchNorm1d("bn1", {.epsilon = 1e-12})(far_from_normal("3,4|2"), training())));
  for (int c = 0; c < 2; ++c) {
    Values a, b;
    for (int n = 0; n < 3; ++n)
      for (int h = 0; h < 4; ++h) {
        b.push_back(steps(n, h, c));
        for (int w = 0; w < 5; ++w) a.push_back(images(n, h, w, c));
      }
    expect_normal(a), expect_normal(b);
  }
}

// Momentum 0.1; the batch is normalised by its biased variance, the running variance moves to the unbiased one.
TEST(BatchNorm, RunningStatisticsFollowDeepInsideAModel) {
  BatchNorm norm("bn", {.dtype = kDouble});
  Sequential net({Residual(Sequential({norm, Tanh()}))});
  Index step("step", 3);
  Array x = drawn("x", "3,5|2");
  Table t(x);
  Phase phase = training();
  Tensor y = net(tensor(x)[step], phase);
  Context ctx(kInDouble);
  Routine train = ctx.compile(phase.updates() & observe(y));
  Values mean(2, 0), variance(2, 1);
  for (int s = 0; s < 3; ++s) {
    train.run({{step, s}});
    Values expected(10);
    for (size_t c = 0; c < 2; ++c) {
      double m = 0, v = 0;
      for (int n = 0; n < 5; ++n) m += t(s, n, c) / 5;
      for (int n = 0; n < 5; ++n) v += std::pow(t(s, n, c) - m, 2) / 5;
      mean[c] = 0.9 * mean[c] + 0.1 * m, variance[c] = 0.9 * variance[c] + 0.1 * v * 5 / 4;
      for (int n = 0; n < 5; ++n)
        expected[size_t(n) * 2 + c] = t(s, n, c) + std::tanh((t(s, n, c) - m) / std::sqrt(v + 1e-5));
    }
    expect_near(train.read(y), expected);
    expect_near(ctx.read("bn.running_mean"), mean);
    expect_near(ctx.read("bn.running_var"), variance);
  }
  // One example: the running statistics, as PyTorch.
  Array one = drawn("one", "1|2");
  Values expected;
  for (size_t c = 0; c < 2; ++c)
    expected.push_back(one.at(int64_t(c)) + std::tanh((one.at(int64_t(c)) - mean[c]) / std::sqrt(variance[c] + 1e-5)));
  expect_near(ctx.eval(net(tensor(one))), expected);
}

TEST(BatchNorm, ABatchOfOneElementKeepsTheStatisticsFinite) {
  Phase phase = training();
  Tensor y = BatchNorm("bn")(drawn_tensor("x", "1|2"), phase);
  Context ctx(kInDouble);
  ctx.run(phase.updates() & observe(y));
  expect_near(ctx.read("bn.running_var"), {0.9, 0.9}, 1e-6);
}

TEST(BatchNorm, CalledTwiceInOnePhaseMovesTwice) {
  BatchNorm norm("bn", {.dtype = kDouble});
  Phase phase = training();
  Tensor a = norm(tensor(Array(parse_shape("2|1"), {0, 2}, kDouble)), phase),
         b = norm(tensor(Array(parse_shape("2|1"), {10, 20}, kDouble)), phase);
  Context ctx(kInDouble);
  ctx.run(phase.updates() & observe({a, b}));
  expect_near(ctx.read("bn.running_mean"), {0.9 * 0.1 * 1 + 0.1 * 15});
  expect_near(ctx.read("bn.running_var"), {0.9 * (0.9 + 0.1 * 2) + 0.1 * 50});
}

TEST(BatchNorm, TrainsWithTheStep) {
  OwnModel model;
  Phase phase = training();
  Tensor loss = cross_entropy(model(drawn_tensor("x", "4|5,5,2"), phase), ids("4|", {1, 2, 3, 4}));
  Context ctx({.seed = 5, .device = "cpu", .compiler_flags = {"-O0"}});
  Routine train = ctx.compile(train_step(loss, sgd({.lr = 0.1})) & phase.updates());
  train.run();
  const double first = train.read(loss).item();
  for (int s = 0; s < 20; ++s) train.run();
  EXPECT_LT(train.read(loss).item(), 0.5 * first);
  EXPECT_NE(ctx.read("norm.running_mean").values(), Values(3, 0));
  EXPECT_TRUE(evaluation().updates().assignments().empty());
}

}  // namespace
}  // namespace caravan
