// Layers against plain loops in double: shapes, names, values, phases. Their gradients are checked by gradcheck_test,
// and cpu_test runs all of them compiled.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <sstream>

#include "caravan/check/draw.h"

namespace caravan {
namespace {

using namespace nn;
using Values = std::vector<double>;

const ContextOptions kInDouble{.seed = 5, .device = "interp"};  // the oracle: every float in double
constexpr DType kDouble = DType::f64;
constexpr double kTolerance = 1e-11;

// A flat array with sizes in memory order, and how a loop reads it.
struct Table {
  Values values;
  std::vector<int64_t> sizes;
  explicit Table(const Array& array) : values(array.values()), sizes(array.shape().sizes()) {}
  template <class... Positions>
  double operator()(Positions... positions) const {
    int64_t at[] = {int64_t(positions)...}, flat = 0;
    EXPECT_EQ(sizeof...(positions), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_TRUE(at[i] >= 0 && at[i] < sizes[i]);
      flat = flat * sizes[i] + at[i];
    }
    return values[size_t(flat)];
  }
};

void expect_near(const Values& actual, const Values& expected, double tolerance = kTolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}
void expect_near(const Array& actual, const Values& expected, double tolerance = kTolerance) {
  expect_near(actual.values(), expected, tolerance);
}

// Every element by a function of its position; the shape is checked first.
void expect_each(const Array& actual, const std::string& shape,
                 const std::function<double(const std::vector<int64_t>&)>& expected) {
  ASSERT_EQ(to_string(actual.shape()), shape);
  const std::vector<int64_t> sizes = actual.shape().sizes();
  std::vector<int64_t> at(sizes.size());
  for (int64_t i = 0; i < actual.size(); ++i) {
    int64_t rest = i;
    for (size_t k = sizes.size(); k-- > 0; rest /= sizes[k]) at[k] = rest % sizes[k];
    ASSERT_NEAR(actual.at(i), expected(at), kTolerance) << "element " << i;
  }
}

Tensor data(const std::string& name, const std::string& shape) { return tensor(drawn(name, shape), name); }
Tensor ids(const std::string& shape, const Values& values) {
  return tensor(Array(parse_shape(shape), values, DType::i32), "ids");
}

std::vector<std::string> names(const std::vector<Tensor>& list) {
  std::vector<std::string> out;
  for (const Tensor& t : list) out.push_back(t.name());
  return out;
}
using Names = std::vector<std::string>;

// The message of the error that `f` throws.
std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}
#define EXPECT_REFUSED(expression, phrase) \
  EXPECT_NE(refusal([&] { expression; }).find(phrase), std::string::npos) << refusal([&] { expression; })

// ---------------------------------------------------------------- mean(spec, x), of tensor/

TEST(Mean, DividesByWhatTheSpecReduces) {
  Context ctx(kInDouble);
  Array x = drawn("x", "2|3,4");
  Table t(x);
  expect_each(ctx.eval(mean("... | h, w => ... | h", tensor(x))), "2|3", [&](auto& i) {
    double sum = 0;
    for (int w = 0; w < 4; ++w) sum += t(i[0], i[1], w);
    return sum / 4;
  });
  expect_each(ctx.eval(mean("... | ..., c => c", tensor(x))), "4", [&](auto& i) {
    double sum = 0;
    for (int b = 0; b < 2; ++b)
      for (int h = 0; h < 3; ++h) sum += t(b, h, i[0]);
    return sum / 6;
  });
  expect_each(ctx.eval(mean("... | ..all.. => ... | 0", tensor(x))), "2|1", [&](auto& i) {
    double sum = 0;
    for (int h = 0; h < 3; ++h)
      for (int w = 0; w < 4; ++w) sum += t(i[0], h, w);
    return sum / 12;
  });
  expect_near(ctx.eval(mean("i => i", tensor({1, 2}))), {1, 2});
  expect_near(ctx.eval(mean("2*o<1+k => o", tensor({3, 6, 9}), {{"k", 3}})), {3, 5});  // windows [. 3 6] [6 9 .]
}
TEST(Mean, TheCountIsTheProductOfWhatIsReduced) {
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(count("... | ..., c => c", data("x", "2,5|3,4"))).item(), 30);
  EXPECT_EQ(ctx.eval(count("i => i", tensor({1, 2}))).item(), 1);
}
TEST(Mean, NeedsNames) { EXPECT_REFUSED(mean("_ => ", tensor({1, 2})), "give `_` a name"); }

// ---------------------------------------------------------------- linear maps, activations, structure

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
  Tensor y = second(first(data("x", "7|3,4")) + tensor({1, 2, 3, 4, 5, 6}));
  Context ctx(kInDouble);
  EXPECT_EQ(to_string(ctx.shape(y)), "7|2,5");
  Routine ready = ctx.compile(observe(y));
  EXPECT_EQ(to_string(ctx.read("first.weight").shape()), "3,4->6");
  EXPECT_EQ(to_string(ctx.read("second.bias").shape()), "2,5");
}

TEST(Linear, ARefusalNamesTheUsersLine) {
  Linear layer("fc", {.output = {3}, .input = {5}});
  Context ctx(kInDouble);
  EXPECT_REFUSED(ctx.shape(layer(data("x", "2|4"))), "nn_test.cpp");
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
  Tensor x = data("x", "3|6");
  Context ctx(kInDouble);
  expect_near(ctx.eval(net(x)), ctx.eval(net.layers[2](tanh(net.layers[1](tanh(net.layers[0](x)))))).values());
  EXPECT_EQ(names(parameters(net)),
            (Names{"net.0.weight", "net.0.bias", "net.1.weight", "net.1.bias", "net.2.weight", "net.2.bias"}));
}

TEST(Swiglu, IsDownOfSiluGateTimesUp) {
  Swiglu layer("ffn", {.hidden = 6, .output = 4, .dtype = kDouble});
  Tensor x = data("x", "3|4");
  Context ctx(kInDouble);
  expect_near(
      ctx.eval(layer(x)),
      ctx.eval(layer.down.weight(layer.gate.weight(x) * sigmoid(layer.gate.weight(x)) * layer.up.weight(x))).values());
  EXPECT_EQ(names(parameters(layer)), (Names{"ffn.gate.weight", "ffn.up.weight", "ffn.down.weight"}));
}

TEST(Sequential, RunsLayersLambdasAndSequences) {
  Linear first("0", {.output = {4}, .dtype = kDouble}), last("2", {.output = {2}, .dtype = kDouble});
  Sequential net({first, [](Tensor x) { return x * x; }, Residual(Sequential({Relu(), Tanh()})), last});
  Tensor x = data("x", "3|5"), h = first(x) * first(x);
  Context ctx(kInDouble);
  expect_near(ctx.eval(net(x)), ctx.eval(last(h + tanh(relu(h)))).values());
  EXPECT_EQ(names(parameters(net)), (Names{"0.weight", "0.bias", "2.weight", "2.bias"}));
}

// What a user writes: a struct with a call operator, nothing else.
struct OwnModel {
  Conv2d conv{"conv", {.channels = 3}};
  BatchNorm norm{"norm"};
  Linear head{"head", {.output = {10}}};
  Tensor operator()(const Tensor& x, const Phase& phase) const {
    return head(relu(norm(conv(x, phase), phase)), phase);
  }
};

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
  Tensor x = data("x", "3|5");
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
  Tensor x = data("x", "3|5");
  EXPECT_REFUSED(Dropout("drop", 0.5)(x, training()), "draws random numbers in training and needs a step");
  EXPECT_REFUSED(Dropout("drop", 1), "at least 0 and below 1");
}

TEST(Phase, PrecisionIsThatOfProducts) {
  Linear layer("fc", {.output = {3}});
  Conv2d conv("conv", {.channels = 2, .kernel = 1});
  const Phase half = evaluation({.precision = DType::bf16});
  EXPECT_EQ(layer(data("x", "2|4")).dtype(), DType::f64);        // as the data come
  EXPECT_EQ(layer(data("x", "2|4"), half).dtype(), DType::f32);  // the bias is not a product
  EXPECT_EQ(Linear("fc", {.output = {3}, .bias = false})(data("x", "2|4"), half).dtype(), DType::bf16);
  EXPECT_EQ(LayerNorm("ln")(cast(data("x", "2|4"), DType::bf16)).dtype(), DType::f32);
  EXPECT_EQ(softmax(cast(data("x", "2|4"), DType::f16)).dtype(), DType::f32);
  EXPECT_EQ(mse(cast(data("x", "2|4"), DType::bf16), 0).dtype(), DType::f32);
  Context ctx(kInDouble);
  Linear exact("exact", {.output = {1}, .bias = false, .init = constant(1)});
  EXPECT_EQ(ctx.eval(exact(tensor({1.00390625}), half)).item(), 1);  // 1 + 2^-8 is between two numbers of bf16
  EXPECT_EQ(ctx.eval(exact(tensor({1.00390625}))).item(), 1.00390625);
}

// ---------------------------------------------------------------- softmax and losses

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
  Context ctx(kInDouble), cpu({.seed = 5, .device = "cpu"});
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
  Tensor x = data("logits", "4|3"), y = ids("4|", {2, 0, -1, 1});
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
  EXPECT_NEAR(ctx.eval(cross_entropy(data("x", "2,3|4"), ids("2,3|", y))).item(), total / 6, kTolerance);
}

TEST(CrossEntropy, OfDistributions) {
  CrossEntropy ce;
  const Values p = {0.2, 0.3, 0.5, 1, 0, 0, 0, 0.5, 0.5, 0.1, 0.8, 0.1};
  Tensor x = data("logits", "4|3"), y = tensor(Array(parse_shape("4|3"), p, kDouble));
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
  Tensor tx = data("x", "2|3"), ty = data("y", "2|3");
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

// ---------------------------------------------------------------- convolutions and pools

// PyTorch's convolution, one output at a time. Weights lie as [g, oc, kh, kw, ic].
double naive_conv(const Table& x, const Table& w, const ConvOptions& o, int64_t n, int64_t oh, int64_t ow,
                  int64_t channel) {
  const int64_t height = x.sizes[1], width = x.sizes[2], in = x.sizes[3] / o.groups, out = o.channels / o.groups,
                g = channel / out;
  auto before = [&](int64_t kernel, int64_t dilation, int64_t given) {
    return o.padding.is_same ? dilation * (kernel - 1) / 2 : given;
  };
  double sum = 0;
  for (int64_t kh = 0; kh < o.kernel.h; ++kh)
    for (int64_t kw = 0; kw < o.kernel.w; ++kw)
      for (int64_t c = 0; c < in; ++c) {
        const int64_t h = oh * o.stride.h + kh * o.dilation.h - before(o.kernel.h, o.dilation.h, o.padding.size.h);
        const int64_t v = ow * o.stride.w + kw * o.dilation.w - before(o.kernel.w, o.dilation.w, o.padding.size.w);
        if (h < 0 || h >= height || v < 0 || v >= width) continue;
        sum += x(n, h, v, g * in + c) * (o.groups == 1 ? w(channel, kh, kw, c) : w(g, channel % out, kh, kw, c));
      }
  return sum;
}

TEST(Conv2d, EqualsTheLoop) {
  const struct {
    ConvOptions options;
    const char* shape;
  } rows[] = {
      {{.channels = 3}, "2|5,6,3"},
      {{.channels = 3, .kernel = {2, 3}, .stride = {1, 2}}, "2|6,3,3"},
      {{.channels = 2, .kernel = 3, .padding = 1}, "2|7,8,2"},
      {{.channels = 2, .kernel = 3, .padding = {2, 0}}, "2|9,6,2"},
      {{.channels = 2, .kernel = 3, .padding = same}, "2|7,8,2"},
      {{.channels = 2, .kernel = 3, .stride = 2, .padding = same, .dilation = 2}, "2|4,4,2"},
      {{.channels = 2, .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 3}}, "2|3,9,2"},
      {{.channels = 6, .kernel = 3, .groups = 2}, "2|5,6,6"},
      {{.channels = 8, .kernel = 2, .stride = 2, .padding = 1, .groups = 4},
       "2|4,5,8"},  // depthwise, two for each channel
  };
  for (const auto& row : rows) {
    const ConvOptions& options = row.options;
    ConvOptions o = options;
    o.dtype = kDouble;
    Conv2d conv("conv", o);
    Array x = drawn("x", "2|7,8,4");
    Context ctx(kInDouble);
    Array y = ctx.eval(conv(tensor(x)));
    Table w(ctx.read("conv.weight")), t(x);
    expect_each(y, row.shape, [&](auto& i) { return naive_conv(t, w, o, i[0], i[1], i[2], i[3]); });
    const Shape shape = ctx.read("conv.weight").shape();
    EXPECT_EQ(shape.elements(), o.channels * 4 / o.groups * o.kernel.h * o.kernel.w);
    EXPECT_EQ(to_string(ctx.read("conv.bias").shape()), std::to_string(o.channels));
  }
}

TEST(Conv2d, HasABiasForEachChannelAndRefusesWhatDoesNotDivide) {
  Conv2d conv("conv", {.channels = 2, .kernel = 1, .init = zeros()});
  Context ctx(kInDouble);
  ctx.compile(observe(conv(data("x", "1|2,2,3"))));
  ctx.write("conv.bias", Array::vector({3, 4}));
  expect_near(ctx.eval(conv(data("x", "1|2,2,3"))), {3, 4, 3, 4, 3, 4, 3, 4});
  EXPECT_EQ(to_string(ctx.read("conv.weight").shape()), "1,1,3->2");
  EXPECT_REFUSED(Conv2d("conv", {.channels = 3, .groups = 2}), "3 channels in 2 groups");
  EXPECT_REFUSED(Conv2d("conv", {}), "needs .channels");
  EXPECT_EQ(names(parameters(Conv2d("c", {.channels = 3, .bias = false}))), (Names{"c.weight"}));
}

TEST(Conv1d, EqualsTheLoop) {
  ConvOptions o{.channels = 4, .kernel = 3, .stride = 2, .padding = 2, .dilation = 2, .groups = 2, .dtype = kDouble};
  Conv1d conv("conv", o);
  Array x = drawn("x", "2|9,6");
  Context ctx(kInDouble);
  Array y = ctx.eval(conv(tensor(x)));
  Table w(ctx.read("conv.weight")), t(x);
  expect_each(y, "2|5,4", [&](auto& i) {
    double sum = 0;
    for (int k = 0; k < 3; ++k)
      for (int c = 0; c < 3; ++c)
        if (int64_t at = 2 * i[1] + 2 * k - 2; at >= 0 && at < 9)
          sum += w(i[2] / 2, i[2] % 2, k, c) * t(i[0], at, i[2] / 2 * 3 + c);
    return sum;
  });
}

TEST(CausalConv1d, SeesThePastAlone) {
  CausalConv1d conv("conv", {.channels = 2, .kernel = 3, .dilation = 2, .dtype = kDouble});
  Array x = drawn("x", "2|7,3");
  Context ctx(kInDouble);
  Array y = ctx.eval(conv(tensor(x)));
  Table w(ctx.read("conv.weight")), t(x);
  expect_each(y, "2|7,2", [&](auto& i) {
    double sum = 0;
    for (int k = 0; k < 3; ++k)
      for (int c = 0; c < 3; ++c)
        if (int64_t at = i[1] - 2 * (2 - k); at >= 0) sum += w(i[2], k, c) * t(i[0], at, c);
    return sum;
  });
  EXPECT_REFUSED(CausalConv1d("conv", {.channels = 2, .padding = 1}), "pads the past by itself");
}

TEST(TransposedConv2d, SpreadsEachInput) {
  const struct {
    ConvOptions options;
    const char* shape;
  } rows[] = {{{.channels = 2, .kernel = 3}, "1|5,6,2"},
              {{.channels = 2, .kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 0}}, "1|5,11,2"},
              {{.channels = 3, .kernel = 2, .stride = 2, .dilation = 2}, "1|7,9,3"}};
  for (const auto& row : rows) {
    ConvOptions o = row.options;
    o.dtype = kDouble;
    TransposedConv2d conv("conv", o);
    Array x = drawn("x", "1|3,4,2");
    Context ctx(kInDouble);
    Array y = ctx.eval(conv(tensor(x)));
    Table w(ctx.read("conv.weight")), t(x);
    expect_each(y, row.shape, [&](auto& i) {
      double sum = 0;
      for (int h = 0; h < 3; ++h)
        for (int v = 0; v < 4; ++v)
          for (int kh = 0; kh < o.kernel.h; ++kh)
            for (int kw = 0; kw < o.kernel.w; ++kw)
              for (int c = 0; c < 2; ++c)
                if (h * o.stride.h + kh * o.dilation.h - o.padding.size.h == i[1] &&
                    v * o.stride.w + kw * o.dilation.w - o.padding.size.w == i[2])
                  sum += w(i[3], kh, kw, c) * t(0, h, v, c);
      return sum;
    });
  }
  EXPECT_REFUSED(TransposedConv2d("conv", {.channels = 2, .groups = 2}), "cannot have .groups");
}

TEST(SeparableConv2d, IsAWindowForEachChannelThenAMap) {
  SeparableConv2d conv("conv", {.channels = 4, .kernel = 3, .stride = 2, .padding = 1, .dtype = kDouble});
  Array x = drawn("x", "2|5,5,3");
  Context ctx(kInDouble);
  Array y = ctx.eval(conv(tensor(x)));
  Table d(ctx.read("conv.depthwise.weight")), p(ctx.read("conv.pointwise.weight")), t(x);
  expect_each(y, "2|3,3,4", [&](auto& i) {
    double sum = 0;
    for (int c = 0; c < 3; ++c)
      for (int kh = 0; kh < 3; ++kh)
        for (int kw = 0; kw < 3; ++kw)
          if (int64_t h = 2 * i[1] + kh - 1, v = 2 * i[2] + kw - 1; h >= 0 && h < 5 && v >= 0 && v < 5)
            sum += p(i[3], c) * d(c, kh, kw) * t(i[0], h, v, c);
    return sum;
  });
  EXPECT_EQ(names(parameters(conv)), (Names{"conv.depthwise.weight", "conv.pointwise.weight", "conv.pointwise.bias"}));
}

TEST(Pools, EqualTheLoop) {
  Table t(drawn("x", "2|5,7,2"));
  Tensor x = data("x", "2|5,7,2");
  const struct {
    PoolOptions options;
    const char* shape;
  } rows[] = {{{}, "2|2,3,2"},
              {{.kernel = 3, .stride = 2}, "2|2,3,2"},
              {{.kernel = {3, 2}, .stride = {1, 3}, .padding = {1, 0}}, "2|5,2,2"},
              {{.kernel = 3, .stride = 1, .padding = same}, "2|5,7,2"}};
  for (const auto& row : rows) {
    const PoolOptions o = row.options;
    const Pair stride{o.stride.h ? o.stride.h : o.kernel.h, o.stride.w ? o.stride.w : o.kernel.w};
    const Pair pad = o.padding.is_same ? Pair{(o.kernel.h - 1) / 2, (o.kernel.w - 1) / 2} : o.padding.size;
    auto over = [&](const std::vector<int64_t>& i, const std::function<void(double)>& visit) {
      for (int64_t kh = 0; kh < o.kernel.h; ++kh)
        for (int64_t kw = 0; kw < o.kernel.w; ++kw)
          if (int64_t h = i[1] * stride.h + kh - pad.h, v = i[2] * stride.w + kw - pad.w;
              h >= 0 && h < 5 && v >= 0 && v < 7)
            visit(t(i[0], h, v, i[3]));
    };
    Context ctx(kInDouble);
    expect_each(ctx.eval(MaxPool2d{o}(x)), row.shape, [&](auto& i) {
      double most = -1e9;
      over(i, [&](double v) { most = std::max(most, v); });
      return most;
    });
    double inside = 0;
    auto sum = [&](auto& i) {
      double total = inside = 0;
      over(i, [&](double v) { total += v, ++inside; });
      return total;
    };
    expect_each(ctx.eval(AvgPool2d{o}(x)), row.shape,
                [&](auto& i) { return sum(i) / double(o.kernel.h * o.kernel.w); });
    PoolOptions excluded = o;
    excluded.exclude_padding = true;
    expect_each(ctx.eval(AvgPool2d{excluded}(x)), row.shape, [&](auto& i) {
      const double total = sum(i);
      return total / inside;
    });
  }
  Context ctx(kInDouble);
  expect_each(ctx.eval(GlobalAvgPool2d()(x)), "2|2", [&](auto& i) {
    double sum = 0;
    for (int h = 0; h < 5; ++h)
      for (int v = 0; v < 7; ++v) sum += t(i[0], h, v, i[1]);
    return sum / 35;
  });
  expect_each(ctx.eval(GlobalMaxPool2d()(x)), "2|2", [&](auto& i) {
    double most = -1e9;
    for (int h = 0; h < 5; ++h)
      for (int v = 0; v < 7; ++v) most = std::max(most, t(i[0], h, v, i[1]));
    return most;
  });
}

TEST(Flatten, HasPyTorchsOrder) {
  Table t(drawn("x", "2|2,3,4"));
  Context ctx(kInDouble);
  expect_each(ctx.eval(Flatten()(data("x", "2|2,3,4"))), "2|24",
              [&](auto& i) { return t(i[0], i[1] / 3 % 2, i[1] % 3, i[1] / 6); });
  EXPECT_EQ(to_string(ctx.shape(Rearrange{"..., t | c => ... | t&c"}(data("y", "2,3|4")))), "2|12");
}

TEST(FlattenConsecutive, FusesNeighbours) {
  Table t(drawn("x", "2,6|4"));
  Context ctx(kInDouble);
  expect_each(ctx.eval(FlattenConsecutive{3}(data("x", "2,6|4"))), "2,2|12",
              [&](auto& i) { return t(i[0], 3 * i[1] + i[2] / 4, i[2] % 4); });
  expect_each(ctx.eval(FlattenConsecutive{6, true}(data("x", "2,6|4"))), "2|24",
              [&](auto& i) { return t(i[0], i[1] / 4, i[1] % 4); });
}

// ---------------------------------------------------------------- norms

void expect_normal(const Values& group) {
  const double n = double(group.size()), mean = std::accumulate(group.begin(), group.end(), 0.0) / n;
  double variance = 0;
  for (double v : group) variance += (v - mean) * (v - mean) / n;
  EXPECT_NEAR(mean, 0, 1e-12);
  EXPECT_NEAR(variance, 1, 1e-9);
}
Tensor far_from_normal(const std::string& shape) { return 3 * data("x", shape) + 7; }

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
  ctx.compile(observe(norm(data("x", "3|4"))));
  ctx.write("ln.weight", Array::vector({1, 2, 3, 4}, kDouble)),
      ctx.write("ln.bias", Array::vector({5, 6, 7, 8}, kDouble));
  expect_each(ctx.eval(norm(data("x", "3|4"))), "3|4", [&](auto& i) {
    double mean = 0, variance = 0;
    for (int c = 0; c < 4; ++c) mean += t(i[0], c) / 4;
    for (int c = 0; c < 4; ++c) variance += std::pow(t(i[0], c) - mean, 2) / 4;
    return (t(i[0], i[1]) - mean) / std::sqrt(variance + 1e-5) * double(i[1] + 1) + double(i[1] + 5);
  });
}

TEST(LayerNorm, FollowsALinearMapOfSeveralAxes) {  // the parameters stay one for each channel
  Context ctx(kInDouble);
  Tensor y = LayerNorm("ln")(Linear("fc", {.output = {3, 4}})(data("x", "2|5")));
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
  expect_each(ctx.eval(RmsNorm("rms", {.dtype = kDouble})(data("x", "3|4"))), "3|4", [&](auto& i) {
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
  Tensor y = BatchNorm("bn")(data("x", "1|2"), phase);
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
  Tensor loss = cross_entropy(model(data("x", "4|5,5,2"), phase), ids("4|", {1, 2, 3, 4}));
  Context ctx({.seed = 5, .device = "cpu"});
  Routine train = ctx.compile(train_step(loss, sgd({.lr = 0.1})) & phase.updates());
  train.run();
  const double first = train.read(loss).item();
  for (int s = 0; s < 20; ++s) train.run();
  EXPECT_LT(train.read(loss).item(), 0.5 * first);
  EXPECT_NE(ctx.read("norm.running_mean").values(), Values(3, 0));
  EXPECT_TRUE(evaluation().updates().assignments().empty());
}

// ---------------------------------------------------------------- embeddings and positions

TEST(Embedding, TakesRowsAndAddsTheirGradients) {
  Embedding tok("tok", {.num = 4, .dim = 2, .dtype = kDouble});
  Tensor y = tok(ids("2,2|", {3, 1, 1, 1}));
  Context ctx(kInDouble);
  Array values = ctx.eval(y);
  Table w(ctx.read("tok.weight"));
  expect_each(values, "2,2|2", [&](auto& i) { return w(i[2], i[0] + i[1] == 0 ? 3 : 1); });
  expect_each(ctx.eval(grad(sum(y), tok.weight)), "4->2", [](auto& i) { return Values{0, 3, 0, 1}[size_t(i[1])]; });
  EXPECT_REFUSED(Embedding("tok", {.num = 4}), "needs .num and .dim");
}

TEST(Positions, LearnedAreRowsOfATable) {
  LearnedPositions pos("pos", {.num = 5, .dim = 2, .dtype = kDouble});
  Table t(drawn("x", "2,3|2"));
  Context ctx(kInDouble);
  Array y = ctx.eval(pos(data("x", "2,3|2")));
  Table w(ctx.read("pos.weight"));
  expect_each(y, "2,3|2", [&](auto& i) { return t(i[0], i[1], i[2]) + w(i[2], i[1]); });
  EXPECT_REFUSED(ctx.shape(pos(data("x", "2,6|2"))),
                 "it has 5 positions (.num, the .ctx of a Gpt), but x is `2,6|2`, a sequence of 6");
}

TEST(Positions, SinusoidalAreThoseOfThePaper) {
  Table t(drawn("x", "2,5|6"));
  Context ctx(kInDouble);
  expect_each(ctx.eval(SinusoidalPositions{}(data("x", "2,5|6"))), "2,5|6", [&](auto& i) {
    const double angle = double(i[1]) / std::pow(10000, double(i[2] / 2 * 2) / 6);
    return t(i[0], i[1], i[2]) + (i[2] % 2 ? std::cos(angle) : std::sin(angle));
  });
}

TEST(Positions, RotaryTurnsPairs) {
  Context ctx(kInDouble);
  // The row of the facts: half-dimension 2, position 1.
  Tensor x = tensor(Array(parse_shape("2|1,4"), {5, 6, 7, 8, 5, 6, 7, 8}, kDouble));
  expect_near(ctx.eval(rotary(x)), {5, 6, 7, 8, -2.3473, 7.4492, 6.9197, 8.0696}, 5e-5);
  Table t(drawn("x", "2,5|3,6"));
  for (bool halves : {false, true})
    for (int first : {0, 4}) {
      RotaryOptions options{.base = 500, .halves = halves};
      if (first) options.first = first;
      expect_each(ctx.eval(rotary(data("x", "2,5|3,6"), options)), "2,5|3,6", [&](auto& i) {
        const int64_t p = halves ? i[3] % 3 : i[3] / 2, side = halves ? i[3] / 3 : i[3] % 2;
        const double angle = double(i[1] + first) * std::pow(500, -double(p) / 3);
        const double a = t(i[0], i[1], i[2], halves ? p : 2 * p), b = t(i[0], i[1], i[2], halves ? p + 3 : 2 * p + 1);
        return side == 0 ? a * std::cos(angle) - b * std::sin(angle) : a * std::sin(angle) + b * std::cos(angle);
      });
    }
}

// ---------------------------------------------------------------- attention

// Queries [b, s, heads, d], keys and values [b, t, kv heads, d].
double naive_attention(const Table& q, const Table& k, const Table& v,
                       const std::function<bool(int64_t, int64_t)>& sees, int64_t b, int64_t s, int64_t head,
                       int64_t c) {
  const int64_t shared = head / (q.sizes[2] / k.sizes[2]), d = q.sizes[3];
  double top = 0, bottom = 0;
  for (int64_t t = 0; t < k.sizes[1]; ++t) {
    if (!sees(s, t)) continue;
    double score = 0;
    for (int64_t e = 0; e < d; ++e) score += q(b, s, head, e) * k(b, t, shared, e);
    const double weight = std::exp(score / std::sqrt(double(d)));
    top += weight * v(b, t, shared, c), bottom += weight;
  }
  return top / bottom;
}

TEST(Attend, EqualsTheLoop) {
  Tensor q = data("q", "2,5|4,3"), k = data("k", "2,5|4,3"), v = data("v", "2,5|4,3");
  Tensor fewer_k = data("k2", "2,5|2,3"), fewer_v = data("v2", "2,5|2,3");
  Tensor longer_k = data("k3", "2,7|4,3"), longer_v = data("v3", "2,7|4,3");
  Array allowed(parse_shape("5|5->"), DType::boolean);
  for (int64_t i = 0; i < 25; ++i) allowed.set(i, i % 3 != 0 || i % 6 == 0);
  Table seen(allowed), tq(drawn("q", "2,5|4,3"));
  auto everything = [](int64_t, int64_t) { return true; };
  auto past = [](int64_t s, int64_t t) { return t <= s; };
  auto given = [&](int64_t s, int64_t t) { return seen(s, t) != 0; };
  const struct {
    Tensor k, v;
    Table tk, tv;
    AttendOptions options;
    std::function<bool(int64_t, int64_t)> sees;
  } rows[] = {
      {k, v, Table(drawn("k", "2,5|4,3")), Table(drawn("v", "2,5|4,3")), {}, everything},
      {k, v, Table(drawn("k", "2,5|4,3")), Table(drawn("v", "2,5|4,3")), {.causal = true}, past},
      {k, v, Table(drawn("k", "2,5|4,3")), Table(drawn("v", "2,5|4,3")), {.mask = tensor(allowed)}, given},
      {k,
       v,
       Table(drawn("k", "2,5|4,3")),
       Table(drawn("v", "2,5|4,3")),
       {.causal = true, .mask = tensor(allowed)},
       [&](int64_t s, int64_t t) { return past(s, t) && (given(s, t)); }},
      {fewer_k, fewer_v, Table(drawn("k2", "2,5|2,3")), Table(drawn("v2", "2,5|2,3")), {.causal = true}, past},
      {longer_k, longer_v, Table(drawn("k3", "2,7|4,3")), Table(drawn("v3", "2,7|4,3")), {}, everything},
  };
  for (const auto& row : rows) {
    Context ctx(kInDouble);
    expect_each(ctx.eval(attend(q, row.k, row.v, row.options)), "2,5|4,3",
                [&](auto& i) { return naive_attention(tq, row.tk, row.tv, row.sees, i[0], i[1], i[2], i[3]); });
  }
}

TEST(Attend, APositionThatSeesNothingAveragesAll) {
  Array nothing(parse_shape("2|3->"), DType::boolean);
  Tensor v = data("v", "3|1,2");
  Table t(drawn("v", "3|1,2"));
  Context ctx(kInDouble);
  Array y = ctx.eval(attend(data("q", "2|1,2"), data("k", "3|1,2"), v, {.mask = tensor(nothing)}));
  expect_each(y, "2|1,2", [&](auto& i) { return (t(0, 0, i[2]) + t(1, 0, i[2]) + t(2, 0, i[2])) / 3; });
}

// The projection lies as PyTorch's [(heads + 2 kv heads) * d, dim]: queries, keys, values, each by heads.
TEST(SelfAttention, ProjectsAttendsAndProjects) {
  for (int64_t kv : {4, 2}) {
    SelfAttention attention("attn",
                            {.dim = 8, .heads = 4, .kv_heads = kv, .causal = true, .bias = true, .dtype = kDouble});
    Array x = drawn("x", "2,3|8");
    Context ctx(kInDouble);
    Array y = ctx.eval(attention(tensor(x)));
    const int64_t rows = (4 + 2 * kv) * 2;
    Table w(ctx.read("attn.qkv.weight").reshaped(parse_shape(std::to_string(rows) + ",8"))),
        p(ctx.read("attn.proj.weight").reshaped(parse_shape("8,8"))), t(x);
    auto projected = [&](int64_t from, int64_t heads) {
      Array out(parse_shape("2,3|" + std::to_string(heads) + ",2"), kDouble);
      for (int64_t i = 0; i < out.size(); ++i) {
        double sum = 0;
        for (int c = 0; c < 8; ++c)
          sum += w(from * 2 + i % (heads * 2), c) * t(i / (heads * 6), i / (heads * 2) % 3, c);
        out.set(i, sum);
      }
      return Table(out);
    };
    Table q = projected(0, 4), k = projected(4, kv), v = projected(4 + kv, kv);
    expect_each(y, "2,3|8", [&](auto& i) {
      double sum = 0;
      for (int c = 0; c < 8; ++c)
        sum += p(i[2], c) * naive_attention(
                                q, k, v, [](int64_t s, int64_t u) { return u <= s; }, i[0], i[1], c / 2, c % 2);
      return sum;
    });
    EXPECT_EQ(names(parameters(attention)),
              (Names{"attn.qkv.weight", "attn.qkv.bias", "attn.proj.weight", "attn.proj.bias"}));
  }
  EXPECT_REFUSED(SelfAttention("attn", {.dim = 9, .heads = 2}), "heads must divide dim");
  EXPECT_REFUSED(SelfAttention("attn", {.dim = 8, .heads = 4, .kv_heads = 3}), "kv_heads must divide heads");
}

TEST(CrossAttention, ReadsAMemoryOfAnotherLengthAndWidth) {
  CrossAttention attention("cross", {.dim = 4, .heads = 2, .dtype = kDouble});
  Tensor x = data("x", "2,3|4"), memory = data("memory", "2,5|6");
  Context ctx(kInDouble);
  Tensor both = attention.kv.weight(memory);
  Tensor k = einsum("... | h^2, d => ... | h, d", both), v = einsum("... | 2^h, d => ... | h, d", both);
  Tensor expected = attention.proj(attend(attention.q.weight(x), k, v));
  EXPECT_EQ(to_string(ctx.shape(attention(x, memory))), "2,3|4");
  expect_near(ctx.eval(attention(x, memory)), ctx.eval(expected).values());
}

TEST(Transformer, BlocksArePreOrPostNorm) {
  Tensor x = data("x", "2,3|4"), memory = data("memory", "2,5|4");
  auto feed = [](const auto& block, const Tensor& y) { return block.down(gelu(block.up(y))); };
  Context ctx(kInDouble);
  EncoderBlock pre("pre", {.dim = 4, .heads = 2, .dtype = kDouble}),
      post("post", {.dim = 4, .heads = 2, .pre_norm = false, .dtype = kDouble});
  Tensor a = x + pre.attn(pre.ln1(x)), b = post.ln1(x + post.attn(x));
  expect_near(ctx.eval(pre(x)), ctx.eval(a + feed(pre, pre.ln2(a))).values());
  expect_near(ctx.eval(post(x)), ctx.eval(post.ln2(b + feed(post, b))).values());
  EXPECT_EQ(
      names(parameters(pre)),
      (Names{"pre.ln1.weight", "pre.ln1.bias", "pre.attn.qkv.weight", "pre.attn.proj.weight", "pre.attn.proj.bias",
             "pre.ln2.weight", "pre.ln2.bias", "pre.up.weight", "pre.up.bias", "pre.down.weight", "pre.down.bias"}));

  DecoderBlock early("early", {.dim = 4, .heads = 2, .dtype = kDouble}),
      late("late", {.dim = 4, .heads = 2, .pre_norm = false, .dtype = kDouble});
  a = x + early.attn(early.ln1(x)), a = a + early.cross(early.ln2(a), memory);
  b = late.ln1(x + late.attn(x)), b = late.ln2(b + late.cross(b, memory));
  expect_near(ctx.eval(early(x, memory)), ctx.eval(a + feed(early, early.ln3(a))).values());
  expect_near(ctx.eval(late(x, memory)), ctx.eval(late.ln3(b + feed(late, b))).values());
  EXPECT_TRUE(early.attn.options.causal);
  EXPECT_FALSE(early.cross.options.causal);
}

// ---------------------------------------------------------------- GPT

TEST(Gpt, HasTheNamesOfItsPartsAndSeesThePastAlone) {
  for (bool tied : {false, true}) {
    Gpt model({.vocab = 11,
               .ctx = 6,
               .dim = 8,
               .heads = 2,
               .layers = 2,
               .tied = tied,
               .init = normal_init(0, 0.3),
               .dtype = kDouble});
    Names expected = {"tok.weight", "pos.weight"};
    for (const char* block : {"blocks.0", "blocks.1"})
      for (const char* part : {"ln1.weight", "ln1.bias", "attn.qkv.weight", "attn.proj.weight", "attn.proj.bias",
                               "ln2.weight", "ln2.bias", "up.weight", "up.bias", "down.weight", "down.bias"})
        expected.push_back(std::string(block) + "." + part);
    expected.insert(expected.end(), {"ln.weight", "ln.bias"});
    if (!tied) expected.push_back("head.weight");
    EXPECT_EQ(names(parameters(model)), expected);

    Context ctx(kInDouble);
    Array y = ctx.eval(model(ids("2,5|", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}))),
          z = ctx.eval(model(ids("2,5|", {1, 2, 3, 0, 0, 6, 7, 8, 0, 0})));
    ASSERT_EQ(to_string(y.shape()), "2,5|11");
    Table a(y), b(z);
    double after = 0;
    for (int n = 0; n < 2; ++n)
      for (int c = 0; c < 11; ++c) {
        for (int t = 0; t < 3; ++t) ASSERT_NEAR(a(n, t, c), b(n, t, c), 1e-12);
        after = std::max(after, std::abs(a(n, 4, c) - b(n, 4, c)));
      }
    EXPECT_GT(after, 0.01);
    EXPECT_EQ(to_string(ctx.read("blocks.0.attn.qkv.weight").shape()), "8->6,4");
  }
}

TEST(Gpt, LearnsToCountAlsoInBf16) {
  for (std::optional<DType> precision : {std::optional<DType>(), std::optional(DType::bf16)}) {
    Gpt model({.vocab = 7, .ctx = 6, .dim = 16, .heads = 2, .layers = 1, .dropout = 0.1});
    Index step("step");
    Phase phase = training({.step = step, .precision = precision});
    Tensor x = ids("3,6|", {0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 0, 5, 6, 0, 1, 2, 3}),
           y = ids("3,6|", {1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 0, 1, 6, 0, 1, 2, 3, 4});
    Tensor loss = cross_entropy(model(x, phase), y), quiet = cross_entropy(model(x), y);
    Context ctx({.seed = 5, .device = "cpu"});
    Routine train = ctx.compile(train_step(loss, adam({.lr = 1e-2})) & phase.updates());
    EXPECT_GT(ctx.eval(quiet).item(), 1.8);
    for (int s = 0; s < 100; ++s) train.run({{step, s}});
    EXPECT_LT(ctx.eval(quiet).item(), 0.1);
  }
}

// ---------------------------------------------------------------- recurrence

double sigma(double v) { return 1 / (1 + std::exp(-v)); }

TEST(Recurrent, EqualsPyTorchsFormulas) {
  const int64_t hidden = 3, length = 4;
  Array x = drawn("x", "2,4|2");
  Table t(x);
  for (bool is_lstm : {true, false}) {
    const int64_t gates = is_lstm ? 4 : 3;
    Context ctx(kInDouble);
    RecurrentOptions options{.hidden = hidden, .context = length, .dtype = kDouble};
    Lstm lstm("r", options);
    Gru gru("r", options);
    Tensor y = is_lstm ? lstm(tensor(x)) : gru(tensor(x));
    ctx.compile(observe(y));
    const std::string shape = std::to_string(gates) + ",3";
    ctx.write("r.ih.bias", drawn("bi", shape)), ctx.write("r.hh.bias", drawn("bh", shape));
    Table wi(ctx.read("r.ih.weight")), wh(ctx.read("r.hh.weight")), bi(ctx.read("r.ih.bias")),
        bh(ctx.read("r.hh.bias"));
    Values expected;
    for (int b = 0; b < 2; ++b) {
      Values h(hidden, 0), c(hidden, 0);
      for (int s = 0; s < length; ++s) {
        const Values before = h;
        auto from_x = [&](int64_t g, int64_t j) {
          double sum = bi(g, j);
          for (int e = 0; e < 2; ++e) sum += wi(g, j, e) * t(b, s, e);
          return sum;
        };
        auto from_h = [&](int64_t g, int64_t j) {
          double sum = bh(g, j);
          for (int e = 0; e < hidden; ++e) sum += wh(g, j, e) * before[size_t(e)];
          return sum;
        };
        for (int64_t j = 0; j < hidden; ++j) {
          auto gate = [&](int64_t g) { return from_x(g, j) + from_h(g, j); };
          double& cell = c[size_t(j)];
          if (is_lstm) {
            cell = sigma(gate(1)) * cell + sigma(gate(0)) * std::tanh(gate(2));
            h[size_t(j)] = sigma(gate(3)) * std::tanh(cell);
          } else {
            const double r = sigma(gate(0)), z = sigma(gate(1)), n = std::tanh(from_x(2, j) + r * from_h(2, j));
            h[size_t(j)] = (1 - z) * n + z * before[size_t(j)];
          }
        }
        expected.insert(expected.end(), h.begin(), h.end());
      }
    }
    Array values = ctx.eval(y);
    EXPECT_EQ(to_string(values.shape()), "2,4|3");
    expect_near(values, expected);
    EXPECT_EQ(names(is_lstm ? parameters(lstm) : parameters(gru)).size(), 4u);
  }
  EXPECT_REFUSED(Lstm("r", {.hidden = 3}), "needs .hidden and .context");
}

// ---------------------------------------------------------------- summary

TEST(Summary, ListsLayersShapesParametersAndWork) {
  Sequential net({Conv2d("conv", {.channels = 4, .kernel = 3, .padding = same}), Relu(), MaxPool2d{}, Flatten(),
                  Linear("fc", {.output = {10}})});
  ModelSummary s = summary(net, "2|6,6,1");
  ASSERT_EQ(s.rows.size(), 3u);
  EXPECT_EQ(s.rows[0].layer, "conv2d conv");
  EXPECT_EQ(to_string(s.rows[0].output), "2|6,6,4");
  EXPECT_EQ(s.rows[0].parameters, 9 * 4 + 4);
  EXPECT_EQ(s.rows[0].flops, 2 * 2 * 36 * 9 * 4 + 2 * 36 * 4);  // a product and a sum for each tap, then the bias
  EXPECT_EQ(s.rows[0].output_bytes, 2 * 36 * 4 * 4);
  EXPECT_EQ(s.rows[1].layer, "max_pool2d 2x2");
  EXPECT_EQ(s.rows[1].flops, 2 * 36 * 4 + 2 * 9 * 4 * 4);  // relu, then a maximum of four
  EXPECT_EQ(s.rows[2].parameters, 36 * 10 + 10);
  EXPECT_EQ(s.total.parameters, 40 + 370);
  EXPECT_EQ(s.total.parameter_bytes, 4 * 410);
  std::ostringstream text;
  text << s;
  EXPECT_NE(text.str().find("linear fc       2|10              370        1460\n"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("parameters take 1.6 KiB"), std::string::npos) << text.str();
}

TEST(Summary, OfModelsOfIdsOfTwoInputsAndOfAnyTensor) {
  Gpt model({.vocab = 65, .ctx = 32, .dim = 48, .heads = 4, .layers = 2, .tied = true});
  ModelSummary s = summary(model, "4,32|", DType::i32);
  int64_t count = 0;
  Context ctx(kInDouble);
  ctx.compile(observe(model(ids("1,2|", {1, 2}))));
  for (const Tensor& p : parameters(model)) count += ctx.read(p).size();
  EXPECT_EQ(s.total.parameters, count);
  EXPECT_EQ(s.rows.back().layer, "linear tok");
  EXPECT_EQ(to_string(s.rows.back().output), "4,32|65");
  EXPECT_EQ(s.rows.back().parameters, 0);  // counted where it was first used
  EXPECT_EQ(
      summary(DecoderBlock("d", {.dim = 4, .heads = 2}), data("x", "2,3|4"), data("memory", "2,5|4")).rows.back().layer,
      "then add");
  EXPECT_EQ(summary(OwnModel(), "2|5,5,1").rows.size(), 3u);
  EXPECT_EQ(summary(data("x", "2|3") * 2).rows.size(), 1u);
}

// What would give a wrong number without a word elsewhere.
TEST(Refusals, OfWhatFitsByAccidentAlone) {
  const Tensor logits = data("logits", "5|4"), classes = ids("5|", {1, 3, 2, 0, 2}),
               sequence = data("sequence", "2,6|3");
  struct Row {
    const char* name;
    std::function<Tensor()> build;
    const char* phrase;
  };
  const Row rows[] = {
      {"an id beyond the classes",
       [&] {
         return cross_entropy(logits, ids("5|", {1, 3, 7, 0, 2}));
       },
       "7"},
      {"an id below them, not ignored",
       [&] {
         return cross_entropy(logits, ids("5|", {1, -100, 2, 0, 2}));
       },
       "-100"},
      {"ids as floats", [&] { return cross_entropy(logits, data("t", "5|")); }, "cast(targets, DType::i32)"},
      {"ids on an output axis",
       [&] {
         return cross_entropy(logits, ids("5", {1, 3, 2, 0, 2}));
       },
       "so the targets must be `5|`"},
      {"one id for all", [&] { return cross_entropy(logits, ids("", {1})); }, "so the targets must be `5|`"},
      {"weights of examples as those of classes",
       [&] { return cross_entropy(logits, classes, {.class_weights = data("w", "5|")}); }, "axes"},
      {"a column against a row", [&] { return mse(data("p", "5|"), data("t", "5")); }, "both must have one shape"},
      {"smoothing beyond all", [&] { return cross_entropy(logits, classes, {.label_smoothing = 1.5}); },
       "a share, 0 to 1"},
      {"no delta", [&] { return huber(logits, logits, 0); }, "must be above 0"},
      {"a mask that is added",
       [&] {
         Tensor q = data("q", "2|1,3");
         return attend(q, q, q, {.mask = data("m", "2|2->")});
       },
       "must be boolean"},
      {"a softmax over nothing", [&] { return softmax("b | c => b | c", logits); }, "runs over nothing"},
      {"a window in the padding", [&] { return MaxPool2d{{.kernel = 2, .padding = 2}}(data("x", "1|6,6,1")); },
       "more than half of its kernel"},
      {"a sequence longer than its context", [&] { return Lstm("l", {.hidden = 3, .context = 4})(sequence); }, "4"},
      {"a sequence longer than its context", [&] { return Gru("g", {.hidden = 3, .context = 4})(sequence); }, "4"},
  };
  for (const Row& row : rows)
    for (const char* device : {"interp", "cpu"}) {
      try {
        Context({.device = device}).eval(row.build());
        ADD_FAILURE() << row.name << " was not refused on " << device;
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find(row.phrase), std::string::npos) << row.name << ": " << e.what();
      }
    }
  EXPECT_TRUE(std::isfinite(
      Context(kInDouble).eval(cross_entropy(logits, ids("5|", {1, -100, 2, 0, 2}), {.ignore = -100})).item()));
}
TEST(Losses, BinaryCrossEntropyIsAccurateInSinglePrecision) {
  for (double x : {10.0, 12.0, 15.0, 30.0})
    for (double sign : {1.0, -1.0}) {
      const double loss =
          Context({.device = "cpu"})
              .eval(binary_cross_entropy(number(sign * x, DType::f32), number(sign > 0 ? 1 : 0, DType::f32)))
              .item();
      EXPECT_NEAR(loss / std::log1p(std::exp(-x)), 1, 1e-6) << sign * x;
    }
}

}  // namespace
}  // namespace caravan
