// Training with bf16 and f16: master weights, and a factor on the loss.
#include <gtest/gtest.h>

#include <cmath>

#include "caravan/nn/nn.h"
#include "caravan/tensor/functions.h"
#include "caravan/train/precision.h"
#include "refusal.h"
#include "this_device.h"

namespace caravan {
namespace {

TEST(MasterWeights, KeepStepsThatBf16Rounds) {
  // A step of 0.001 is less than half the distance of bf16 numbers near 1.
  Tensor plain = param("plain", {.output = {2}, .init = ones(), .dtype = DType::bf16});
  Tensor kept = param("kept", {.output = {2}, .init = ones(), .dtype = DType::bf16});
  Context ctx(kHere);
  Routine without = ctx.compile(train_step(sum(plain), sgd({.lr = 0.001})));
  Routine with = ctx.compile(train_step(sum(kept), master_weights(sgd({.lr = 0.001}))));
  without.run_steps(100), with.run_steps(100);
  if (ctx.device() == "cpu") {  // the interpreter keeps doubles
    EXPECT_EQ(ctx.read(plain).at(0), 1);
    EXPECT_EQ(ctx.dtype("kept"), DType::bf16);
  }
  EXPECT_NEAR(ctx.read("kept.master").at(0), 0.9, 1e-5);
  EXPECT_NEAR(ctx.read(kept).at(1), 0.9, 0.004);
}

TEST(MasterWeights, BeginWithTheParameterAndFollowAdam) {
  const Array start = Array::vector({0.5, -0.25, 2});
  Tensor narrow = param("narrow", {.output = {3}, .init = from(start), .dtype = DType::bf16});
  Tensor wide = param("wide", start);
  auto loss = [](const Tensor& w) { return sum(square(w - 1)); };
  Context ctx(kHere);
  Routine a = ctx.compile(train_step(loss(narrow), master_weights(adam({.lr = 0.01}))));
  Routine b = ctx.compile(train_step(loss(wide), adam({.lr = 0.01})));
  a.run_steps(50), b.run_steps(50);
  for (int64_t i = 0; i < 3; ++i) EXPECT_NEAR(ctx.read("narrow.master").at(i), ctx.read(wide).at(i), 0.01) << i;
  EXPECT_TRUE(ctx.has("narrow.master.adam.mean"));
}

TEST(MasterWeights, ArePartOfACheckpointAndLeaveWideParametersAlone) {
  Tensor narrow = param("narrow", {.output = {1}, .init = ones(), .dtype = DType::f16}), wide = param("wide", 1.0);
  Context ctx(kHere);
  ctx.compile(train_step(sum(narrow) + wide, master_weights(sgd({.lr = 0.5})))).run();
  EXPECT_EQ(ctx.read(wide).item(), 0.5);
  EXPECT_EQ(ctx.read(narrow).at(0), 0.5);
  EXPECT_FALSE(ctx.has("wide.master"));
}

// The gradient, 1e-8, is less than any number of f16.
Tensor of_tiny_gradient(const Tensor& w) {
  const Tensor small = number(1e-4, DType::f16);
  return cast(cast(w, DType::f16) * small * small, DType::f32);
}

TEST(ScaledStep, KeepsGradientsThatF16WouldLose) {
  Tensor lost = param("lost", 1.0), kept = param("kept", 1.0);
  Context ctx(kHere);
  ctx.compile(train_step(of_tiny_gradient(lost), sgd({.lr = 1e7}))).run();
  ctx.compile(scaled_step(of_tiny_gradient(kept), sgd({.lr = 1e7}))).run();
  if (ctx.device() == "cpu") {
    EXPECT_EQ(ctx.read(lost).item(), 1);  // the interpreter keeps doubles
  }
  EXPECT_NEAR(ctx.read(kept).item(), 0.9, 0.001);
}

TEST(ScaledStep, AnOverflowChangesNothingButTheFactor) {
  Tensor w = param("w", 1.0), x = input("x", {.batch = Extents{}, .input = Extents{}, .output = Extents{}});
  Context ctx(kHere);
  ctx.write(x, Array::scalar(1));
  Routine step = ctx.compile(scaled_step(w * x, sgd({.lr = 0.5, .momentum = 0.9}), {.first = 8, .every = 3}));
  step.run();
  EXPECT_EQ(ctx.read(w).item(), 0.5);
  ctx.write(x, Array::scalar(std::numeric_limits<double>::infinity()));
  step.run();
  EXPECT_EQ(ctx.read(w).item(), 0.5);
  EXPECT_EQ(ctx.read("loss_scale").item(), 4);
  ctx.write(x, Array::scalar(0));
  step.run_steps(2);
  EXPECT_EQ(ctx.read("loss_scale").item(), 4);
  step.run();
  EXPECT_EQ(ctx.read("loss_scale").item(), 8);  // after three steps without an overflow
  expect_refusal<ConfigError>([&] { scaled_step(w * x, sgd({.lr = 1}), {.growth = 1}); }, {"mixed_precision_test.cpp"});
}

TEST(MixedPrecision, AModelTrainsInBf16AndF16AsInF32) {
  const Array x = rows({{0, 0}, {0, 1}, {1, 0}, {1, 1}}), y = rows({{0}, {1}, {1}, {0}});
  auto trained = [&](std::optional<DType> products, DType weights) {
    nn::Mlp net("net", {.widths = {8, 1}, .activation = nn::Tanh(), .dtype = weights});
    const nn::Phase phase = nn::training({.precision = products});
    Tensor loss = mean(square(cast(net(x, phase), DType::f32) - tensor(y)));
    Optimizer optimizer = master_weights(adam({.lr = 0.02}));
    ContextOptions options = kHere;
    options.seed = 3;
    Context ctx(options);
    Routine step = ctx.compile(products == DType::f16 ? scaled_step(loss, optimizer) : train_step(loss, optimizer));
    step.run_steps(400);
    return step.read(loss).item();
  };
  const double wide = trained(std::nullopt, DType::f32);
  EXPECT_LT(wide, 0.01);
  EXPECT_NEAR(trained(DType::bf16, DType::f32), wide, 0.01);
  EXPECT_NEAR(trained(DType::f16, DType::f32), wide, 0.01);
  EXPECT_NEAR(trained(std::nullopt, DType::bf16), wide, 0.01);
}

}  // namespace
}  // namespace caravan
