// Gradients of every kind of relation, at first and second order, against differences and against exact values.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>

#include "programs/in_double.h"
#include "refusal.h"

namespace caravan {
namespace {

Array doubles(const Values& values) { return Array::vector(values, DType::f64); }

// A parameter of distinct values that no difference of 1e-3 reorders.
Tensor some(const char* name, const char* shape) {
  Array out(parse_shape(shape), DType::f64);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, std::sin(1.7 * double(i) + double(name[0])) + 0.01 * double(i));
  return param(name, out);
}

// A scalar that is curved in every element of y, each by another weight.
Tensor bend(const Tensor& y) { return dot(square(y) + sin(y), normal("bend", {.like = y, .step = 0})); }

// Differences of the loss against its gradient, then differences of the gradient in a fixed direction against the
// gradient of that.
void expect_both_orders(const Tensor& loss, const std::vector<Tensor>& xs) {
  Context ctx(checked({.seed = 1}));
  GradientCheck first = check_gradients(loss, xs, ctx);
  EXPECT_TRUE(first.passed()) << "first order\n" << first;
  Tensor slope;
  std::vector<Tensor> gradients = grad(loss, xs);
  for (size_t i = 0; i < xs.size(); ++i) {
    Tensor part = dot(gradients[i], normal("direction" + std::to_string(i), {.like = xs[i], .step = 0}));
    slope = i ? slope + part : part;
  }
  GradientCheck second = check_gradients(slope, xs, ctx);
  EXPECT_TRUE(second.passed()) << "second order\n" << second;
}

struct Case {
  const char* name;
  std::function<Tensor(const std::vector<Tensor>&)> loss;
  std::vector<const char*> shapes;
};

TEST(Gradient, OfEveryKindOfRelationAtBothOrders) {
  const Case cases[] = {
      {"pointwise with a broadcast bias", [](auto& t) { return bend(t[0] + t[1]); }, {"3|4", "4"}},
      {"a broadcast scalar", [](auto& t) { return bend(t[0] * t[1]); }, {"3|4", ""}},
      {"a kept mean", [](auto& t) { return bend(t[0] - einsum("n | c => n | 0", t[0]) / 4); }, {"3|4"}},
      {"apply", [](auto& t) { return bend(t[0](t[1])); }, {"4->3", "2|4"}},
      {"matmul", [](auto& t) { return bend(einsum("ij;jk=>ik", t[0], t[1])); }, {"3,4", "4,2"}},
      {"three operands", [](auto& t) { return bend(einsum("i; ij; j => i", t[0], t[1], t[2])); }, {"3", "3,4", "4"}},
      {"the same operand twice", [](auto& t) { return bend(einsum("ij;ij=>i", t[0], t[0])); }, {"3,4"}},
      {"transposition", [](auto& t) { return bend(einsum("b|i->o => o|b->i", t[0])); }, {"2|3->4"}},
      {"a valid window of stride 2 on 8",
       [](auto& t) { return bend(einsum("2*o+k; k => o", t[0], t[1])); },
       {"8", "3"}},
      {"a dilated window", [](auto& t) { return bend(einsum("o+2*k; k => o", t[0], t[1])); }, {"9", "3"}},
      {"a same-padded window", [](auto& t) { return bend(einsum("2*o=+k; k => o", t[0], t[1])); }, {"6", "3"}},
      {"a padded window", [](auto& t) { return bend(einsum("o<1+k; k => o", t[0], t[1])); }, {"5", "3"}},
      {"a padded outer_sum", [](auto& t) { return bend(outer_sum("o<1+k; k => o", t[0], t[1])); }, {"5", "3"}},
      {"a transposed convolution", [](auto& t) { return bend(einsum("o; k => 2*o+k", t[0], t[1])); }, {"4", "3"}},
      {"a fixed index read", [](auto& t) { return bend(einsum("i1j => ij", t[0])); }, {"2,3,4"}},
      {"a fixed index written", [](auto& t) { return bend(einsum("ij => i1j", t[0])); }, {"3,4"}},
      {"the rest after three", [](auto& t) { return bend(einsum("3^rest => rest", t[0])); }, {"8"}},
      {"a shift", [](auto& t) { return bend(einsum("i => 1^i", t[0])); }, {"4"}},
      {"a reversal", [](auto& t) { return bend(einsum("i => -i", t[0]) * t[0]); }, {"4"}},
      {"every second", [](auto& t) { return bend(einsum("2*n+1 => n", t[0])); }, {"8"}},
      {"split",
       [](auto& t) {
         return bend(einsum("x&y => x, y", t[0], {{"y", 4}}));
       },
       {"12"}},
      {"merge", [](auto& t) { return bend(einsum("x, y => x&y", t[0])); }, {"3,4"}},
      {"concatenation", [](auto& t) { return bend(concat("a; b => a^b", t[0], t[1])); }, {"3", "2"}},
      {"stack",
       [](auto& t) {
         return bend(stack({t[0], t[1], t[0]}));
       },
       {"3", "3"}},
      {"a diagonal read", [](auto& t) { return bend(einsum("ii=>i", t[0])); }, {"4,4"}},
      {"a diagonal written", [](auto& t) { return bend(einsum("i=>ii", t[0])); }, {"4"}},
      {"a triangle",
       [](auto& t) {
         return bend(einsum("j => i", t[0], {{"i", 5}, {"j <= i"}}));
       },
       {"5"}},
      {"max", [](auto& t) { return bend(einmax("ij=>i", t[0])); }, {"3,4"}},
      {"min of products", [](auto& t) { return bend(einmin("ij;j=>i", t[0], t[1])); }, {"3,4", "4"}},
      {"an overlapping padded max",
       [](auto& t) {
         return bend(einmax("o<1+k => o", t[0], {{"k", 3}}));
       },
       {"6"}},
      {"tropical", [](auto& t) { return bend(tropical("ij;jk=>ik", t[0], t[1])); }, {"3,4", "4,2"}},
      {"gather",
       [](auto& t) {
         return bend(gather(t[0], cast(tensor({2, 0, 2}), DType::i32)));
       },
       {"3->2"}},
      {"scatter_add",
       [](auto& t) {
         return bend(scatter_add(t[0], cast(tensor({2, 0, 2}), DType::i32), 4));
       },
       {"3,2"}},
      {"softmax",
       [](auto& t) {
         Tensor e = exp(t[0] - einmax("n | c => n | 0", t[0]));
         return bend(e / einsum("n | c => n | 0", e));
       },
       {"2|4"}},
      {"mean and captured sizes", [](auto& t) { return square(mean(t[0])) * mean(square(t[0])); }, {"2|4"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<Tensor> xs;
    const char* names[] = {"a", "b", "c"};
    for (size_t i = 0; i < c.shapes.size(); ++i) xs.push_back(some(names[i], c.shapes[i]));
    expect_both_orders(c.loss(xs), xs);
  }
}

TEST(Gradient, StandsAloneAndHasTheShapeOfItsTensor) {  // nothing of the loss is evaluated, nothing is inferred again
  Tensor x = param("x", count_from(0, "8", DType::f64)), y = einsum("2*o+k => o", x, {{"k", 3}}), dx = grad(sum(y), x);
  Context ctx(kInDouble);
  EXPECT_EQ(to_string(ctx.shape(y)), "3");
  EXPECT_EQ(ctx.eval(dx).values(), (Values{1, 1, 2, 1, 2, 1, 1, 0}));
  Routine r = ctx.compile(observe(dx));
  EXPECT_EQ(r.to_string().find("einsum ="), std::string::npos);
  Tensor cubes = einsum("2*o+k => o", x * x * x, {{"k", 3}}),
         ddx = grad(sum(grad(sum(cubes), x)), x);  // 6 x, as often as x is read
  Context other(kInDouble);
  EXPECT_EQ(other.eval(ddx).values(), (Values{0, 6, 24, 18, 48, 30, 36, 0}));
}

TEST(Gradient, OfAnOverlappingPaddedMaxGoesToTheFirstWinner) {
  Tensor x = param("x", {2, 2, 1, 2}), y = einmax("o<1+k => o", x, {{"k", 3}}),
         z = einmin("o<1+k => o", -x, {{"k", 3}});
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(y).values(), (Values{2, 2, 2, 2}));
  EXPECT_EQ(ctx.eval(grad(sum(y), x)).values(), (Values{2, 1, 0, 1}));
  EXPECT_EQ(ctx.eval(grad(sum(z), x)).values(), (Values{-2, -1, 0, -1}));
  Tensor cubes = einmax("o<1+k => o", x * x * x, {{"k", 3}});
  EXPECT_EQ(ctx.eval(grad(sum(grad(sum(cubes), x)), x)).values(), (Values{24, 12, 0, 12}))
      << "6 x for each window it wins";
  Tensor p = param("p", {1, 1}), q = param("q", {1, 1});  // the pointwise max: to its first operand
  EXPECT_EQ(ctx.eval(grad(sum(max(p, q)), q, {.allow_unused = true})).values(), (Values{0, 0}));
}

TEST(Gradient, IsBuiltBeforeAnyShapeIsKnown) {
  Tensor x = input("x"), target = input("target"), w = param("w"), b = param("b");
  Tensor loss = sum(square(w(x) + b - target));
  auto [dw, db] = grad(loss, w, b);
  Tensor ddw = grad(dot(dw, dw), w);
  Context ctx(checked({.seed = 1, .init = constant(0.5)}));
  ctx.write(x, Array(parse_shape("2|3"), {1, 2, 3, 4, 5, 6}));
  ctx.write(target, Array(parse_shape("2|1"), {1, 2}));
  EXPECT_EQ(ctx.eval(loss).item(), 2.5 * 2.5 + 6 * 6);  // 0.5 * 6 + 0.5 - 1 and 0.5 * 15 + 0.5 - 2
  EXPECT_EQ(ctx.eval(dw).values(), (Values{2 * 2.5 + 2 * 6 * 4, 2 * 2 * 2.5 + 2 * 6 * 5, 2 * 3 * 2.5 + 2 * 6 * 6}));
  EXPECT_EQ(ctx.eval(db).values(), (Values{17}));
  EXPECT_EQ(to_string(ctx.shape(ddw)), "3->1");
  EXPECT_TRUE(check_gradients(dot(dw, dw), {w, b}, ctx).passed());
}

TEST(Gradient, OfGradientOfGradient) {
  Tensor x = param("x", doubles({2, -1})), y = sum(pow(x, 4) + exp(x));
  Tensor d1 = grad(y, x), d2 = grad(sum(d1), x), d3 = grad(sum(d2), x), d4 = grad(sum(d3), x), d5 = grad(sum(d4), x);
  Context ctx(kInDouble);
  for (int i = 0; i < 2; ++i) {
    double v = i == 0 ? 2 : -1, e = std::exp(v);
    EXPECT_NEAR(ctx.eval(d1).at(i), 4 * v * v * v + e, 1e-12);
    EXPECT_NEAR(ctx.eval(d2).at(i), 12 * v * v + e, 1e-12);
    EXPECT_NEAR(ctx.eval(d3).at(i), 24 * v + e, 1e-12);
    EXPECT_NEAR(ctx.eval(d4).at(i), 24 + e, 1e-12);
    EXPECT_NEAR(ctx.eval(d5).at(i), e, 1e-12);
  }
}

TEST(Gradient, ByATensorThatIsNotReached) {
  Tensor x = param("x", {1, 2}), y = param("y", {3, 4, 5}), z = sum(x);
  expect_refusal([&] { grad(z, y); }, {"`sum`", "`y`", "does not depend", "allow_unused", "autodiff_test.cpp"});
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(grad(z, y, {.allow_unused = true})).values(), (Values{0, 0, 0}));
  EXPECT_EQ(ctx.eval(grad(z, z)).item(), 1);
  // Reached, but nothing flows: that is zero, not an error.
  EXPECT_EQ(ctx.eval(grad(sum(floor(x)), x)).values(), (Values{0, 0}));
}

TEST(Gradient, ByAComputedTensor) {
  Tensor x = param("x", {1, 2}), h = square(x), y = sum(square(h));
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(grad(y, h)).values(), (Values{2, 8}));
  auto [dh, dx] = grad(y, h, x);
  EXPECT_EQ(ctx.eval(dx).values(), (Values{4, 32}));
  EXPECT_EQ(ctx.eval(dh).values(), (Values{2, 8}));
}

TEST(Gradient, OfIntegersIsRefused) {
  Tensor n = param("n", Array::vector({1, 2}, DType::i32)), x = param("x", {1, 2});
  expect_refusal([&] { grad(sum(cast(n, DType::f32) * x), n); }, {"`n`", "i32", "not a float"});
  expect_refusal([&] { grad(argmax("i=>", x), x); }, {"`argmax`", "i64", "not a float"});
  expect_refusal([&] { grad(sum(n), x, {.allow_unused = true}); }, {"`sum`", "i32"});
}

TEST(Gradient, StopsWhereToldTo) {
  Tensor x = param("x", {2, 3});
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(grad(sum(x * stop_gradient(square(x))), x)).values(), (Values{4, 9}));
  EXPECT_EQ(ctx.eval(stop_gradient(x)).values(), (Values{2, 3}));
  expect_refusal([&] { grad(sum(stop_gradient(x)), x); }, {"does not depend"});
}

TEST(CustomGradient, StraightThroughReversalAndClipping) {
  auto through =
      custom_gradient([](const Tensor& x) { return round(x); }, [](const Tensor& g, const Tensor&) { return g; });
  auto reversed = custom_gradient([](const Tensor& x) { return x; }, [](const Tensor& g, const Tensor&) { return -g; });
  Tensor x = param("x", {0.25, 1.75});
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(through(x)).values(), (Values{0, 2}));
  EXPECT_EQ(ctx.eval(grad(sum(square(through(x))), x)).values(), (Values{0, 4}));  // 2 round(x)
  EXPECT_EQ(ctx.eval(grad(sum(square(reversed(x))), x)).values(), (Values{-0.5, -3.5}));
  EXPECT_EQ(ctx.eval(grad(sum(reversed(reversed(x))), x)).values(), (Values{1, 1}));
}

TEST(CustomGradient, OfSeveralTensorsAndOfHigherOrder) {
  auto product = custom_gradient([](const Tensor& a, const Tensor& b) { return a * b; },
                                 [](const Tensor& g, const Tensor& a, const Tensor& b) {
                                   return std::vector<Tensor>{g * b, g * a};
                                 });
  Tensor a = some("a", "3"), b = some("b", "3");
  expect_both_orders(bend(product(a, b)), {a, b});
  auto only_first = custom_gradient([](const Tensor& a, const Tensor& b) { return a * b; },
                                    [](const Tensor& g, const Tensor&, const Tensor& b) {
                                      return std::vector<Tensor>{g * b, Tensor()};
                                    });
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(grad(sum(only_first(a, b)), b)).values(), (Values{0, 0, 0}));
  auto broken = custom_gradient([](const Tensor& a, const Tensor& b) { return a * b; },
                                [](const Tensor& g, const Tensor&, const Tensor&) { return g; });
  expect_refusal([&] { grad(sum(broken(a, b)), a); }, {"gave 1 tensors for 2 inputs"});
}

TEST(CustomGradient, RuleFollowsASubstitution) {  // then(p, q): q's x is p's new x, in the rule too
  auto cubed = custom_gradient([](const Tensor& x) { return x * x * x; },
                               [](const Tensor& g, const Tensor& x) { return g * 3 * square(x); });
  Tensor x = param("x", 2.0), y = cubed(x);
  std::vector<Tensor> moved = substitute({y}, {x}, {Tensor(x + 1)});
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(moved[0]).item(), 27);
  EXPECT_EQ(ctx.eval(grad(moved[0], x)).item(), 27);
}

TEST(Products, OfJacobiansAndHessians) {
  Tensor x = param("x", doubles({0.5, -1.5})), v = tensor(doubles({2, 3})), u = tensor(doubles({1, -1, 4}));
  // y = (x0 x1, x0^2, sin x1); J = [[x1, x0], [2 x0, 0], [0, cos x1]]
  Tensor x0 = einsum("0=>", x), x1 = einsum("1=>", x), y = stack({x0 * x1, square(x0), sin(x1)});
  const double a = 0.5, b = -1.5;
  Context ctx(kInDouble);
  EXPECT_EQ(to_string(ctx.shape(y)), "3");
  Values j = ctx.eval(jvp(y, x, v)).values(), t = ctx.eval(vjp(y, x, u)).values();
  const Values jv = {b * 2 + a * 3, 2 * a * 2, std::cos(b) * 3}, ju = {b * 1 + 2 * a * -1, a * 1 + std::cos(b) * 4};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(j[i], jv[i], 1e-12);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(t[i], ju[i], 1e-12);
  // f = x0^2 x1 + exp(x1): H = [[2 x1, 2 x0], [2 x0, exp(x1)]]
  Tensor f = square(x0) * x1 + exp(x1);
  Values h = ctx.eval(hvp(f, x, v)).values();
  EXPECT_NEAR(h[0], 2 * b * 2 + 2 * a * 3, 1e-12);
  EXPECT_NEAR(h[1], 2 * a * 2 + std::exp(b) * 3, 1e-12);
  EXPECT_EQ(ctx.eval(hvp(sum(x), x, v)).values(), (Values{0, 0}));
  EXPECT_EQ(ctx.eval(jvp(stop_gradient(x), x, v)).values(), (Values{0, 0}));
  EXPECT_EQ(ctx.eval(jvp(einmax("i=>", x), x, v)).item(), 2);  // the winner's component
}

TEST(Select,
     ZeroTimesInfinityNeverAppears) {  // rows select with where: an untaken side gives 0, whatever the cotangent
  Tensor x = param("x", {-1, 0, 1}), inf = tensor({kInf, kInf, kInf});
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(vjp(relu(x), x, inf)).values(), (Values{0, 0, kInf}));
  EXPECT_EQ(ctx.eval(vjp(max(x, 0.0), x, inf)).values(), (Values{0, kInf, kInf}));  // a tie goes to the first
  EXPECT_EQ(ctx.eval(vjp(clamp(x, -0.5, 0.5), x, inf)).values(), (Values{0, kInf, 0}));
  EXPECT_EQ(ctx.eval(vjp(einmax("i=>", x), x, tensor(Array::scalar(kInf)))).values(), (Values{0, 0, kInf}));
}

// `where` selects cotangents, so the untaken branch receives an exact 0. That 0 still runs through the branch's own
// derivative: 0 * 0.5 / sqrt(0) is NaN. The remedy is the usual one, a safe argument inside the branch.
TEST(Select, TheUntakenBranchNeedsASafeArgument) {
  Tensor x = param("x", {-1, 0, 4});
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(where(x > 0, sqrt(x), 0.0)).values(), (Values{0, 0, 2}));
  Values naive = ctx.eval(grad(sum(where(x > 0, sqrt(x), 0.0)), x)).values();
  EXPECT_TRUE(std::isnan(naive[0]) && std::isnan(naive[1]));
  EXPECT_EQ(naive[2], 0.25);
  Tensor safe = where(x > 0, sqrt(where(x > 0, x, 1.0)), 0.0);
  EXPECT_EQ(ctx.eval(grad(sum(safe), x)).values(), (Values{0, 0, 0.25}));
  EXPECT_EQ(ctx.eval(grad(sum(grad(sum(safe), x)), x)).values(), (Values{0, 0, -1.0 / 32}));
}

TEST(ProductAccumulator, IsExactWithZerosAndRefusesTheSecondDerivative) {
  Context ctx(kInDouble);
  auto slope = [&](const Values& v) {
    Context fresh(kInDouble);
    Tensor x = param("x", doubles(v));
    return fresh.eval(grad(product(x), x)).values();
  };
  EXPECT_EQ(slope({2, 3, 4}), (Values{12, 8, 6}));
  EXPECT_EQ(slope({2, 0, 4}), (Values{0, 8, 0}));
  EXPECT_EQ(slope({0, 0, 4}), (Values{0, 0, 0}));
  Tensor m = some("m", "3,4"), rows = einprod("ij=>i", m);
  EXPECT_TRUE(check_gradients(bend(rows), {m}, ctx).passed());
  Tensor dm = grad(bend(rows), m);
  expect_refusal([&] { grad(sum(dm), m); }, {"second derivative", "refused", "product", "exp(sum(log(x)))"});
}

TEST(Gradient, OfLogicAndPositionsIsZero) {
  Tensor x = param("x", {3, 1, 2});
  Context ctx(kInDouble);
  Tensor hits = einsum("i=>", where(x > 1.5, x, 0.0));
  EXPECT_EQ(ctx.eval(grad(hits, x)).values(), (Values{1, 0, 1}));
  Tensor counted = sum(cast(x > 1.5, DType::f32)) + sum(x);
  EXPECT_EQ(ctx.eval(grad(counted, x)).values(), (Values{1, 1, 1}));
  Tensor chosen = cast(argmax("i=>", x), DType::f32) * sum(x);
  EXPECT_EQ(ctx.eval(grad(chosen, x)).values(), (Values{0, 0, 0}));
}

}  // namespace
}  // namespace caravan
