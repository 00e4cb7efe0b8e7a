// Numbers that are data: another value compiles nothing, and a value has the bits that it has as a constant.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cc/own_cache.h"

namespace caravan {
namespace {

Context on(const std::string& device) {
  ContextOptions options;
  options.seed = 1, options.device = device, options.cache = own_cache(), options.threads = 1;
  options.compiler_flags = {"-O1"};  // which is what takes the time
  return Context(options);
}
Array numbers(const std::string& shape, DType dtype) {
  Array out(parse_shape(shape), dtype);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, double((i * 7919) % 101 - 50) / (is_float(dtype) ? 16 : 1));
  return out;
}

struct Expression {
  const char* text;
  std::function<Tensor(const Tensor&, Operand)> of;
};
const Expression kExpressions[] = {
    {"x * n", [](const Tensor& x, Operand n) { return x * n; }},
    {"n - x", [](const Tensor& x, Operand n) { return n - x; }},
    {"x / n", [](const Tensor& x, Operand n) { return x / n; }},
    {"pow(n, x)", [](const Tensor& x, Operand n) { return pow(n, x); }},
    {"x * (1 - n)", [](const Tensor& x, Operand n) { return x * (1 - n); }},  // computed from numbers alone
    {"x < n", [](const Tensor& x, Operand n) { return x < n; }},
    {"where(x < 0, n, x)", [](const Tensor& x, Operand n) { return where(x < 0, n, x); }},
    {"clamp(x, -n, n)", [](const Tensor& x, Operand n) { return clamp(x, -n, n); }},
    {"sum(x * n)", [](const Tensor& x, Operand n) { return sum(x * n); }},
    {"grad of sum(exp(x * n) * n)",
     [](const Tensor& x, Operand n) {
       static int made = 0;
       const DType dtype = is_float(x.dtype()) ? x.dtype() : DType::f32;
       Tensor w = param("w" + std::to_string(++made), numbers("|37", dtype));
       return grad(sum(exp(w * n) * n), w);
     }},
};

TEST(Tunable, HasTheBitsOfAConstant) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::u8, DType::boolean})
    for (const char* device : {"cpu", "interp"}) {
      const Tensor x = tensor(numbers("|37", dtype));
      std::vector<Tensor> all;
      std::vector<std::string> texts;
      for (const Expression& e : kExpressions)
        for (const double value : {0.1, -3.7, 2.0}) {
          all.push_back(e.of(x, value)), all.push_back(e.of(x, tunable(value)));
          texts.push_back(std::string(e.text) + " with n = " + std::to_string(value));
        }
      const std::vector<Array> results = on(device).eval(all);
      for (size_t k = 0; k < texts.size(); ++k) {
        const Array &constant = results[2 * k], &data = results[2 * k + 1];
        ASSERT_EQ(constant.dtype(), data.dtype()) << texts[k];
        for (int64_t i = 0; i < data.size(); ++i) {
          const double a = constant.at(i), b = data.at(i);
          ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)))
              << texts[k] << ", x of " << name(dtype) << " on " << device << ": " << a << " is " << b;
        }
      }
    }
}

TEST(Tunable, IsANumberAlsoAlone) {
  for (const char* device : {"cpu", "interp"}) {
    Context ctx = on(device);
    EXPECT_EQ(ctx.eval(tunable(0.5)).item(), 0.5);
    EXPECT_EQ(ctx.eval(tunable(0.5) * 3 + 1).item(), 2.5);
  }
  EXPECT_THROW(tensor(numbers("|3", DType::f16)) * tunable(1e6), DTypeError);
}

TEST(Tunable, IsReadFromOneLeafInEachPrecision) {
  const Tensor n = tunable(0.1, "rate"), x = tensor(numbers("|4", DType::f32)), y = tensor(numbers("|4", DType::f64));
  Context ctx = on("interp");
  const std::string text = ctx.compile(observe({x * n, x + n, y * n})).to_string();
  EXPECT_NE(text.find("rate "), std::string::npos) << text;
  EXPECT_NE(text.find("rate.1 "), std::string::npos) << text;
  EXPECT_EQ(text.find("rate.2"), std::string::npos) << text;
}

struct Recipe {
  const char* text;
  std::function<Optimizer(double scale, Index step)> of;  // every number of it times `scale`
};
const Recipe kRecipes[] = {
    {"sgd", [](double s, Index) { return sgd({.lr = 0.1 * s, .momentum = 0.8 * s, .weight_decay = 1e-3 * s}); }},
    {"adam",
     [](double s, Index) { return adam({.lr = 0.1 * s, .beta1 = 0.9 * s, .beta2 = 0.99 * s, .epsilon = 1e-8 * s}); }},
    {"adamw", [](double s, Index) { return adamw({.lr = 0.1 * s, .weight_decay = 1e-3 * s}); }},
    {"rmsprop", [](double s, Index) { return rmsprop({.lr = 0.1 * s, .decay = 0.9 * s, .momentum = 0.8 * s}); }},
    {"lion", [](double s, Index) { return lion({.lr = 0.1 * s, .beta1 = 0.9 * s, .weight_decay = 1e-3 * s}); }},
    {"linear decay", [](double s, Index step) { return sgd({.lr = linear_decay(step, 100 * s, 0.1 * s, 0.01 * s)}); }},
    {"cosine decay", [](double s, Index step) { return sgd({.lr = cosine_decay(step, 100 * s, 0.1 * s, 0.01 * s)}); }},
    {"exponential decay",
     [](double s, Index step) { return sgd({.lr = exponential_decay(step, 0.1 * s, 0.9 * s, 10 * s)}); }},
    {"step decay", [](double s, Index step) { return sgd({.lr = step_decay(step, 0.1 * s, 0.9 * s, 10 * s)}); }},
    {"warmup", [](double s, Index step) { return sgd({.lr = warmup(step, 10 * s, 0.1 * s)}); }},
};
TEST(Tunable, NumbersOfOptimisersAndSchedulesCompileNothing) {
  for (const Recipe& recipe : kRecipes) {
    Array weights[2];
    for (int run = 0; run < 2; ++run) {
      Index step("step");
      Tensor w = param("w", numbers("|7", DType::f32));
      const double scale = run == 0 ? 1 : 0.5;
      const Transform clip = clip_by_value(2 * scale), norm = clip_by_global_norm(9 * scale);
      Context ctx = on("cpu");
      Routine train = ctx.compile(
          train_step(sum(square(w)), recipe.of(scale, step), [=](const Gradients& g) { return norm(clip(g)); }));
      EXPECT_EQ(train.report().from_cache, run == 1) << recipe.text;
      for (int s = 0; s < 3; ++s) train.indices().empty() ? train.run() : train.run({{step, s}});
      weights[run] = ctx.read(w);
    }
    EXPECT_NE(weights[0].values(), weights[1].values()) << recipe.text;
  }
}

}  // namespace
}  // namespace caravan
