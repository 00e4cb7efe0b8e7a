// Random numbers: exactly Random123's Threefry, keyed by (seed, name, step), and of the distributions they claim.
#include "caravan/base/random.h"

#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "programs/in_double.h"
#include "refusal.h"

namespace caravan {
namespace {

constexpr int64_t kMany = 40'000;
constexpr uint64_t kSeed = 7;

double mean_of(const Values& v) { return std::accumulate(v.begin(), v.end(), 0.0) / double(v.size()); }
double moment(const Values& v, int power) {  // central
  double mean = mean_of(v), total = 0;
  for (double x : v) total += std::pow(x - mean, power);
  return total / double(v.size());
}
double deviation(const Values& v) { return std::sqrt(moment(v, 2)); }
double correlation(const Values& a, const Values& b, size_t lag = 0) {
  double ma = mean_of(a), mb = mean_of(b), total = 0;
  size_t n = a.size() - lag;
  for (size_t i = 0; i < n; ++i) total += (a[i] - ma) * (b[i + lag] - mb);
  return total / double(n) / deviation(a) / deviation(b);
}
// Four standard errors of a mean of n independent draws of unit deviation.
double four_sigma(double n) { return 4 / std::sqrt(n); }

Values draw(const Tensor& t, uint64_t seed = kSeed, const IndexValues& at = {}) {
  Context ctx(checked({.seed = seed}));
  return ctx.eval(t, at).values();
}

TEST(Threefry, IsRandom123s) {
  struct Row {
    Word4 counter, key, output;
  };
  constexpr uint32_t f = 0xffffffff;
  const Row rows[] = {
      {{0, 0, 0, 0}, {0, 0, 0, 0}, {0x9c6ca96a, 0xe17eae66, 0xfc10ecd4, 0x5256a7d8}},
      {{f, f, f, f}, {f, f, f, f}, {0x2a881696, 0x57012287, 0xf6c7446e, 0xa16a6732}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89},
       {0x59cd1dbb, 0xb8879579, 0x86b5d00c, 0xac8b6d84}},
  };
  for (const Row& row : rows) EXPECT_EQ(threefry4x32(row.counter, row.key), row.output);
}

TEST(Random, BitsAreThoseOfTheStream) {
  Values bits = draw(random_bits("noise", {.output = {5}, .step = 0}));
  for (uint64_t e = 0; e < 5; ++e) EXPECT_EQ(bits[e], double(random_words(kSeed, hash_name("noise"), 0, e)[0]));
}

TEST(Random, KeyedBySeedNameAndStep) {
  Index step("step");
  auto noise = [&](const char* name) { return uniform(name, {.output = {9}, .step = step}); };
  Values first = draw(noise("a"), 1, {{step, 3}});
  EXPECT_EQ(first, draw(noise("a"), 1, {{step, 3}}));
  EXPECT_NE(first, draw(noise("a"), 2, {{step, 3}}));
  EXPECT_NE(first, draw(noise("b"), 1, {{step, 3}}));
  EXPECT_NE(first, draw(noise("a"), 1, {{step, 4}}));
}

TEST(Random, AnyElementCountAndAPrefixStays) {
  Values longest = draw(uniform("u", {.output = {64}, .step = 0}));
  for (int64_t n : {1, 2, 3, 4, 5, 7, 31, 33}) {
    Values some = draw(uniform("u", {.output = {n}, .step = 0}));
    EXPECT_EQ(some, Values(longest.begin(), longest.begin() + n)) << n << " elements";
  }
  EXPECT_EQ(draw(uniform("u", {.batch = {2}, .input = {4}, .output = {8}, .step = 0})),
            longest);  // the element counts, not the axes
}

TEST(Random, ADrawWithoutAStepIsRefused) {
  expect_refusal<StateError>([] { random_bits("s", {.output = {2}}); },
                             {"random_bits(\"s\") (random_test.cpp:", "the same numbers in every run", ".step = 0"});
  expect_refusal<StateError>([] { uniform("s", {.output = {2}}); }, {"uniform(\"s\")"});
  expect_refusal<StateError>([] { normal("s", {.output = {2}}); }, {"normal(\"s\")"});
  expect_refusal<StateError>([] { bernoulli("s", 0.5, {.output = {2}}); }, {"bernoulli(\"s\")"});
}

TEST(Random, TwoDrawsOfOneStreamAtOneStepAreRefused) {
  Index step("step");
  Tensor count =
      state("count", {.batch = {}, .input = Extents{}, .output = Extents{}, .init = zeros(), .dtype = DType::i64});
  const std::vector<std::string> phrases = {
      "`s` is drawn from at random_test.cpp:", "and at random_test.cpp:", "a stream or a step of its own"};
  auto both = [](const Tensor& a, const Tensor& b) { Context(checked()).shape(sum(a) + sum(b)); };
  auto u = [](Operand step, int64_t n = 2) { return uniform("s", {.output = {n}, .step = step}); };
  expect_refusal<StateError>([&] { both(u(0), u(0)); }, phrases);
  expect_refusal<StateError>([&] { both(u(step), u(step)); }, phrases);
  expect_refusal<StateError>([&] { both(u(step, 2), u(step, 3)); }, phrases);  // one is the beginning of the other
  expect_refusal<StateError>([&] { both(u(count), normal("s", {.output = {2}, .step = count})); }, phrases);
  expect_refusal<StateError>([&] { both(u(2 * step + 1), u(2 * step + 1)); }, phrases);  // equal, though built twice
  both(u(0), u(1));
  both(u(step), u(step + 1));
  both(u(step), u(count));
  both(u(2 * step), u(3 * step));
  Tensor once = u(step), z = normal("z", {.output = {2}, .step = step});  // one draw, of two words for a normal
  both(once, once), both(z, square(z));
  Context ctx(checked());
  ctx.eval(u(0)), ctx.eval(u(0));  // two programs
}

TEST(Random, InsertingAParameterChangesNoOther) {
  auto network = [](bool deeper) {
    Tensor x = tensor({1, 2, 3}), w1 = param("w1", {.output = {4}}), w2 = param("w2", {.output = {2}}),
           extra = param("extra", {.output = {4}});
    return w2(deeper ? extra(w1(x)) : w1(x));
  };
  Context shallow(checked({.seed = 5})), deep(checked({.seed = 5})), other(checked({.seed = 6}));
  shallow.eval(network(false)), deep.eval(network(true)), other.eval(network(false));
  for (const char* name : {"w1", "w2"}) {
    EXPECT_EQ(shallow.read(name).values(), deep.read(name).values());
    EXPECT_NE(shallow.read(name).values(), other.read(name).values());
  }
  EXPECT_NE(deep.read("extra").at(0), deep.read("w1").at(0));
}

TEST(Random, TheStepOfAProgramRuns) {  // a state as step: every run another draw, resumed bit for bit
  Tensor count =
      state("count", {.batch = {}, .input = Extents{}, .output = Extents{}, .init = zeros(), .dtype = DType::i64});
  Tensor noise = uniform("noise", {.output = {3}, .step = count});
  Context ctx(checked({.seed = 1}));
  Routine r = ctx.compile(assign(count, count + 1) & observe(noise));
  r.run();
  Values first = r.read(noise).values();
  r.run();
  Values second = r.read(noise).values();
  EXPECT_NE(first, second);
  ctx.write(count, Array::scalar(0, DType::i64));
  r.run();
  EXPECT_EQ(r.read(noise).values(), first);
}

TEST(Uniform, MomentsBinsAndRange) {
  Values u = draw(uniform("u", {.output = {kMany}, .step = 0}));
  for (double x : u) ASSERT_TRUE(x >= 0 && x < 1 && x == double(float(x)));
  EXPECT_NEAR(mean_of(u), 0.5, four_sigma(kMany) * std::sqrt(1 / 12.0));
  EXPECT_NEAR(moment(u, 2), 1 / 12.0, four_sigma(kMany) * std::sqrt(1 / 180.0));
  constexpr int kBins = 100;
  std::vector<int> count(kBins);
  for (double x : u) ++count[size_t(x * kBins)];
  double chi = 0, expected = double(kMany) / kBins;
  for (int c : count) chi += (c - expected) * (c - expected) / expected;
  // chi-square with 99 degrees of freedom has mean 99 and deviation sqrt(198)
  EXPECT_NEAR(chi, kBins - 1, 4 * std::sqrt(2.0 * (kBins - 1)));
}

TEST(Uniform, NeighboursKeysAndStepsAreUncorrelated) {
  Index step("step");
  auto stream = [&](const char* name, uint64_t seed, int64_t at) {
    return draw(uniform(name, {.output = {kMany}, .step = step}), seed, {{step, at}});
  };
  Values u = stream("u", 1, 0);
  for (size_t lag : {1, 2, 3, 4, 7, 64}) EXPECT_NEAR(correlation(u, u, lag), 0, four_sigma(kMany)) << "lag " << lag;
  EXPECT_NEAR(correlation(u, stream("v", 1, 0)), 0, four_sigma(kMany));
  EXPECT_NEAR(correlation(u, stream("u", 2, 0)), 0, four_sigma(kMany));
  EXPECT_NEAR(correlation(u, stream("u", 1, 1)), 0, four_sigma(kMany));
  EXPECT_NEAR(correlation(u, stream("u", 1, 1), 1), 0, four_sigma(kMany));
}

TEST(Normal, MomentsAndTails) {
  Values z = draw(normal("z", {.output = {kMany}, .step = 0}));
  EXPECT_NEAR(mean_of(z), 0, four_sigma(kMany));
  EXPECT_NEAR(moment(z, 2), 1, four_sigma(kMany) * std::sqrt(2.0));
  EXPECT_NEAR(moment(z, 3), 0, four_sigma(kMany) * std::sqrt(15.0));
  EXPECT_NEAR(moment(z, 4), 3, four_sigma(kMany) * std::sqrt(96.0));
  for (double limit : {1.0, 2.0, 3.0}) {
    double p = std::erfc(limit / std::sqrt(2.0)), share = 0;
    for (double x : z) share += std::abs(x) > limit ? 1.0 / kMany : 0;
    EXPECT_NEAR(share, p, four_sigma(kMany) * std::sqrt(p * (1 - p))) << "beyond " << limit;
  }
  for (double x : z) ASSERT_LE(std::abs(x), 5.77);
}

TEST(Normal, IsTheNormalOfTheInitialiser) {  // one formula in the language, one on the host
  Values z = draw(normal("w", {.output = {100}, .step = 0}));
  Context ctx(checked({.seed = kSeed}));
  Values w = ctx.eval(param("w", {.output = {100}, .init = normal_init()})).values();
  for (size_t i = 0; i < 100; ++i) EXPECT_NEAR(z[i], w[i], 1e-6 * std::max(1.0, std::abs(z[i])));
}

TEST(Bernoulli, HasItsProbability) {
  Tensor b = bernoulli("b", 0.3, {.output = {kMany}, .step = 0});
  EXPECT_EQ(b.dtype(), DType::boolean);
  EXPECT_NEAR(mean_of(draw(b)), 0.3, four_sigma(kMany) * std::sqrt(0.3 * 0.7));
  EXPECT_EQ(mean_of(draw(bernoulli("b", 0.0, {.output = {1000}, .step = 0}))), 0);
  EXPECT_EQ(mean_of(draw(bernoulli("b", 1.0, {.output = {1000}, .step = 0}))), 1);
  Values two =
      draw(bernoulli("b", tensor({0.0, 1.0}), {.batch = {50}, .output = {2}, .step = 0}));  // a probability per element
  for (size_t i = 0; i < two.size(); ++i) EXPECT_EQ(two[i], double(i % 2));
}

TEST(Random, LikeTakesTheShapeAndNotTheValue) {
  Tensor x = matrix({{1, 2, 3}, {4, 5, 6}});
  Context ctx(checked());
  EXPECT_EQ(to_string(ctx.shape(uniform("u", {.like = x, .step = 0}))), "2,3");
  Values kept = draw(where(bernoulli("drop", 0.5, {.like = x, .step = 0}), x, 0.0));
  EXPECT_EQ(kept.size(), 6u);
}

struct InitRow {
  const char* name;
  Init init;
  double deviation, bound;  // bound 0: none
};

TEST(Init, DeviationsUseTheFanOverAllInputAxes) {  // input 5,5,8: fan in 200; output 64
  const double in = 200, out = 64;
  const InitRow rows[] = {
      {"automatic", {}, std::sqrt(2 / in), 0},
      {"kaiming_normal", kaiming_normal(), std::sqrt(2 / in), 0},
      {"kaiming_normal gain 1", kaiming_normal(1), std::sqrt(1 / in), 0},
      {"kaiming_uniform", kaiming_uniform(), std::sqrt(2 / in), std::sqrt(6 / in)},
      {"xavier_normal", xavier_normal(), std::sqrt(2 / (in + out)), 0},
      {"xavier_uniform", xavier_uniform(), std::sqrt(2 / (in + out)), std::sqrt(6 / (in + out))},
      {"uniform", uniform_init(-0.1, 0.1), 0.2 / std::sqrt(12.0), 0.1},
      {"normal", normal_init(0, 0.02), 0.02, 0},
  };
  for (const InitRow& row : rows) {
    SCOPED_TRACE(row.name);
    Context ctx(checked({.seed = kSeed}));
    Values w = ctx.eval(param("w", {.input = {5, 5, 8}, .output = {64}, .init = row.init})).values();
    double n = double(w.size());
    EXPECT_NEAR(mean_of(w), 0, four_sigma(n) * row.deviation);
    EXPECT_NEAR(deviation(w) / row.deviation, 1, four_sigma(n));
    if (row.bound == 0) continue;
    for (double x : w) ASSERT_LE(std::abs(x), row.bound * (1 + 1e-6));
  }
}

// unit_normal has a logarithm and a cosine of its own, which are as exact as those of the C library.
TEST(Random, NormalNumbersAreThoseOfTheFormula) {
  std::vector<double> drawn(100'000);
  unit_normals(3, 4, 5, 6, drawn);
  auto formula = [](uint32_t word0, uint32_t word1) {
    const double turn = unit_uniform(word1);
    return std::sqrt(-2 * std::log((double(word0 >> 8) + 1) * 0x1p-24)) * std::cos(2 * std::numbers::pi * turn);
  };
  for (size_t e = 0; e < drawn.size(); ++e) {
    const Word4 w = random_words(3, 4, 5, 6 + e);
    ASSERT_EQ(drawn[e], unit_normal(w[0], w[1])) << e;
    ASSERT_NEAR(drawn[e], formula(w[0], w[1]), 4e-15) << e;
    ASSERT_EQ(float(drawn[e]), float(formula(w[0], w[1]))) << e;
  }
  constexpr uint32_t kEnds[] = {0, 1u << 8, 1u << 29, 1u << 30, 3u << 29, 1u << 31, 3u << 30, 0xffffff00};
  for (const uint32_t word0 : kEnds)
    for (const uint32_t word1 : kEnds)
      EXPECT_NEAR(unit_normal(word0, word1), formula(word0, word1), 4e-15) << word0 << " " << word1;
}

// Element e depends on the seed, the name and e alone. 60,000 elements are the work of three threads.
TEST(Init, EveryElementIsItsFormulaOnAnyNumberOfThreads) {
  const uint64_t seed = 7, stream = hash_name("w");
  const double in = 200, out = 300;
  auto u = [&](uint64_t e, double low, double high) {
    return low + (high - low) * unit_uniform(random_words(seed, stream, 0, e)[0]);
  };
  auto n = [&](uint64_t e) {
    return unit_normal(random_words(seed, stream, 0, e)[0], random_words(seed, stream, 0, e)[1]);
  };
  struct {
    Init init;
    std::function<double(uint64_t)> element;
  } const rows[] = {
      {kaiming_normal(1.5), [&](uint64_t e) { return 1.5 / std::sqrt(in) * n(e); }},
      {kaiming_uniform(1.5), [&](uint64_t e) { return u(e, -1, 1) * 1.5 * std::sqrt(3 / in); }},
      {xavier_normal(1.5), [&](uint64_t e) { return 1.5 * std::sqrt(2 / (in + out)) * n(e); }},
      {xavier_uniform(1.5), [&](uint64_t e) { return u(e, -1, 1) * 1.5 * std::sqrt(6 / (in + out)); }},
      {uniform_init(-0.1, 0.3), [&](uint64_t e) { return u(e, -0.1, 0.3); }},
      {normal_init(2, 0.02), [&](uint64_t e) { return 2 + 0.02 * n(e); }},
      {constant(0.1), [&](uint64_t) { return 0.1; }},
  };
  for (const auto& row : rows)
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (const int threads : {1, 2, 3}) {
        Context ctx({.seed = seed, .device = "cpu", .threads = threads});
        Tensor w = param("w", {.input = {200}, .output = {300}, .init = row.init, .dtype = dtype});
        ctx.compile(observe(sum(w)));
        const Array drawn = ctx.read(w);
        for (int64_t e = 0; e < drawn.size(); ++e)
          ASSERT_EQ(drawn.at(e), convert(dtype, row.element(uint64_t(e))))
              << int(row.init.kind) << ", element " << e << " of " << name(dtype) << ", " << threads << " threads";
      }
}

TEST(Init, AKernelIsDrawnOverAllItsAxes) {
  Tensor x = tensor(Array(parse_shape("1|6,6,2")));
  Tensor kernel = param("kernel", {.input = {3, 3, 2}, .output = {4}});
  Context ctx(checked({.seed = 3}));
  ctx.eval(einsum("... | oh+kh, ow+kw, ic; kh, kw, ic -> oc => ... | oh, ow, oc", x, kernel));
  Array k = ctx.read(kernel);
  EXPECT_EQ(to_string(k.shape()), "3,3,2->4");
  std::vector<double> all = k.values();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()) - all.begin(), k.size())
      << "not constant over space, channels or anything";
}

TEST(Init, DefaultsAndTheContextsOverride) {
  Tensor w = param("w", {.input = {3}, .output = {4}}), b = param("b", {.output = {4}}),
         g = param("g", {.output = {4}, .init = ones()});
  Context plain(checked()), other(checked({.init = constant(0.5)}));
  auto all = [&](Context& ctx) { return ctx.eval({w, b, g}); };
  std::vector<Array> p = all(plain), o = all(other);
  EXPECT_GT(deviation(p[0].values()), 0.1);
  EXPECT_EQ(p[1].values(), Values(4, 0.0));
  EXPECT_EQ(o[0].values(), Values(12, 0.5));
  EXPECT_EQ(o[1].values(), Values(4, 0.5));
  EXPECT_EQ(p[2].values(), Values(4, 1.0));
  EXPECT_EQ(o[2].values(), Values(4, 1.0));
}

TEST(Init, ValuesMustHaveTheShape) {
  Context ctx(checked());
  EXPECT_EQ(ctx.eval(param("w", {.output = {2}, .init = from(Array::vector({4, 5}))})).values(), (Values{4, 5}));
  EXPECT_THROW(ctx.eval(param("v", {.output = {3}, .init = from(Array::vector({4, 5}))})), ShapeError);
  EXPECT_FALSE(ctx.has("v"));
}

}  // namespace
}  // namespace caravan
