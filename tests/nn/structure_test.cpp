// Linear maps, activations, and what holds layers together: sequences, parameters, dropout, phases.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/layers.h"

namespace caravan {
namespace {

TEST(Linear, IsWeightTimesXPlusBias) {
  Linear layer("fc", {.output = {3}, .bias_init = normal_init(), .dtype = kDouble});
  Array x = drawn("x", "2|4");
  Context ctx(kInDouble);
  Array y = ctx.eval(layer(tensor(x)));
  Table w(ctx.read("fc.weight")), b(ctx.read("fc.bias")), t(x);
  expect_each(y, "2|3", [&](auto& i) {
    double sum = b(i[1]);
    for (int c = 0; c < 4; ++c) sum += w(i[1], c) * t(i[0], c);
    return sum;
  });
  EXPECT_EQ(names(parameters(layer)), (Names{"fc.weight", "fc.bias"}));
  EXPECT_EQ(names(parameters(Linear("plain", {.output = {3}, .bias = false}))), (Names{"plain.weight"}));
}

TEST(Linear, TakesAllOutputAxesAndInfersItsOwn) {
  Linear first("first"), second("second", {.output = {2, 5}});
  Tensor y = second(first(drawn_tensor("x", "7|3,4")) + tensor({1, 2, 3, 4, 5, 6}));
  Context ctx(kInDouble);
  EXPECT_EQ(to_string(ctx.shape(y)), "7|2,5");
  Routine ready = ctx.compile(observe(y));
  EXPECT_EQ(to_string(ctx.read("first.weight").shape()), "3,4->6");
  EXPECT_EQ(to_string(ctx.read("second.bias").shape()), "2,5");
}

TEST(Linear, ARefusalNamesTheUsersLine) {
  Linear layer("fc", {.output = {3}, .input = {5}});
  Context ctx(kInDouble);
  EXPECT_REFUSED(ctx.shape(layer(drawn_tensor("x", "2|4"))), "structure_test.cpp");
}

TEST(Activations, AreTheFunctionsOfTheirNames) {
  const Values x = {-3, -0.5, 0, 0.25, 2};
  struct Row {
    Layer layer;
    double (*f)(double);
  } rows[] = {
      {Identity(), [](double v) { return v; }},
      {Relu(), [](double v) { return v > 0 ? v : 0; }},
      {Gelu(), [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); }},
      {GeluTanh(), [](double v) { return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }},
      {Silu(), [](double v) { return v / (1 + std::exp(-v)); }},
      {Softplus(), [](double v) { return std::log1p(std::exp(v)); }},
      {Tanh(), [](double v) { return std::tanh(v); }},
      {Sigmoid(), [](double v) { return 1 / (1 + std::exp(-v)); }},
      {LeakyRelu(), [](double v) { return v > 0 ? v : 0.01 * v; }},
      {Elu(), [](double v) { return v > 0 ? v : std::exp(v) - 1; }},
  };
  Context ctx(kInDouble);
  for (auto& [layer, f] : rows) {
    Values expected;
    for (double v : x) expected.push_back(f(v));
    expect_near(ctx.eval(layer(tensor(Array::vector(x)))), expected);
  }
}

TEST(Mlp, PutsTheActivationBetweenLinearMaps) {
  Mlp net("net", {.widths = {5, 4, 2}, .activation = Tanh(), .dtype = kDouble});
  Tensor x = drawn_tensor("x", "3|6");
  Context ctx(kInDouble);
  expect_near(ctx.eval(net(x)), ctx.eval(net.layers[2](tanh(net.layers[1](tanh(net.layers[0](x)))))).values());
  EXPECT_EQ(names(parameters(net)),
            (Names{"net.0.weight", "net.0.bias", "net.1.weight", "net.1.bias", "net.2.weight", "net.2.bias"}));
}

TEST(Swiglu, IsDownOfSiluGateTimesUp) {
  Swiglu layer("ffn", {.hidden = 6, .output = 4, .dtype = kDouble});
  Tensor x = drawn_tensor("x", "3|4");
  Context ctx(kInDouble);
  expect_near(
      ctx.eval(layer(x)),
      ctx.eval(layer.down.weight(layer.gate.weight(x) * sigmoid(layer.gate.weight(x)) * layer.up.weight(x))).values());
  EXPECT_EQ(names(parameters(layer)), (Names{"ffn.gate.weight", "ffn.up.weight", "ffn.down.weight"}));
}

TEST(Sequential, RunsLayersLambdasAndSequences) {
  Linear first("0", {.output = {4}, .dtype = kDouble}), last("2", {.output = {2}, .dtype = kDouble});
  Sequential net({first, [](Tensor x) { return x * x; }, Residual(Sequential({Relu(), Tanh()})), last});
  Tensor x = drawn_tensor("x", "3|5"), h = first(x) * first(x);
  Context ctx(kInDouble);
  expect_near(ctx.eval(net(x)), ctx.eval(last(h + tanh(relu(h)))).values());
  EXPECT_EQ(names(parameters(net)), (Names{"0.weight", "0.bias", "2.weight", "2.bias"}));
}

TEST(Parameters, OfAUsersOwnStruct) {
  EXPECT_EQ(names(parameters(OwnModel())),
            (Names{"conv.weight", "conv.bias", "norm.weight", "norm.bias", "head.weight", "head.bias"}));
  EXPECT_EQ(names(buffers(OwnModel())), (Names{"norm.running_mean", "norm.running_var"}));
  EXPECT_TRUE(buffers(Linear("fc")).empty());
}

TEST(Parameters, OfModelsOfIdsAndOfTwoInputs) {
  EXPECT_EQ(names(parameters(Embedding("tok", {.num = 5, .dim = 2}))), (Names{"tok.weight"}));
  EXPECT_EQ(parameters(DecoderBlock("dec", {.dim = 4, .heads = 2})).size(), 17u);
}

TEST(Dropout, IsOffInEvaluation) {
  Dropout drop("drop", 0.5);
  Tensor x = drawn_tensor("x", "3|5");
  EXPECT_TRUE(drop(x).same_as(x));
  EXPECT_TRUE(Dropout("none", 0)(x, training()).same_as(x));
}

TEST(Dropout, DropsItsShareAndKeepsTheMean) {
  Index step("step");
  Tensor x = tensor(Array(parse_shape("200|50"), Values(10000, 1)));
  Tensor y = Dropout("drop", 0.3)(x, training({.step = step})),
         other = Dropout("other", 0.3)(x, training({.step = step}));
  Context ctx(kInDouble);
  Values first = ctx.eval(y, {{step, 0}}).values();
  int64_t zeros = 0;
  for (double v : first) {
    EXPECT_TRUE(v == 0 || std::abs(v - 1 / 0.7) < 1e-6);
    zeros += v == 0;
  }
  EXPECT_NEAR(double(zeros) / 10000, 0.3, 4 * std::sqrt(0.3 * 0.7 / 10000));
  EXPECT_EQ(ctx.eval(y, {{step, 0}}).values(), first);  // the same step, the same draw
  EXPECT_NE(ctx.eval(y, {{step, 1}}).values(), first);
  EXPECT_NE(ctx.eval(other, {{step, 0}}).values(), first);  // another layer, another draw
}

TEST(Dropout, Refusals) {
  Tensor x = drawn_tensor("x", "3|5");
  EXPECT_REFUSED(Dropout("drop", 0.5)(x, training()), "draws random numbers in training and needs a step");
  EXPECT_REFUSED(Dropout("drop", 1), "at least 0 and below 1");
}

TEST(Phase, PrecisionIsThatOfProducts) {
  Linear layer("fc", {.output = {3}});
  Conv2d conv("conv", {.channels = 2, .kernel = 1});
  const Phase half = evaluation({.precision = DType::bf16});
  EXPECT_EQ(layer(drawn_tensor("x", "2|4")).dtype(), DType::f64);         // as the data come
  EXPECT_EQ(layer(drawn_tensor("x", "2|4"), half).dtype(), DType::bf16);  // although the bias is f32
  EXPECT_EQ(conv(drawn_tensor("image", "2|4,4,1"), half).dtype(), DType::bf16);
  EXPECT_EQ(Linear("fc", {.output = {3}, .bias = false})(drawn_tensor("x", "2|4"), half).dtype(), DType::bf16);
  EXPECT_EQ(LayerNorm("ln")(cast(drawn_tensor("x", "2|4"), DType::bf16)).dtype(), DType::f32);
  EXPECT_EQ(softmax(cast(drawn_tensor("x", "2|4"), DType::f16)).dtype(), DType::f32);
  EXPECT_EQ(mse(cast(drawn_tensor("x", "2|4"), DType::bf16), 0).dtype(), DType::f32);
  Context ctx(kInDouble);
  Linear exact("exact", {.output = {1}, .bias = false, .init = constant(1)});
  EXPECT_EQ(ctx.eval(exact(tensor({1.00390625}), half)).item(), 1);  // 1 + 2^-8 is between two numbers of bf16
  EXPECT_EQ(ctx.eval(exact(tensor({1.00390625}))).item(), 1.00390625);
}

}  // namespace
}  // namespace caravan
