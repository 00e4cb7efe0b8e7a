// The processor as a device, against the interpreter: every gradient case, every precision, random bits, state and
// assignments.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/interp/device.h"
#include "compiled_device.h"
#include "gradient_programs.h"
#include "programs.h"
#include "refusal.h"

namespace caravan {
namespace {

// Of the largest magnitude in the tensor: errors of a sum are relative to its terms, not to what is left of them.
constexpr double kF64Tolerance = 1e-12;
constexpr double kF32Tolerance = 1e-5;

const std::string& cache() {
  static const TemporaryFolder folder;
  return folder.path;
}
using Flags = std::vector<std::string>;  // of the compiler
std::unique_ptr<backend::Device> cpu(uint64_t seed = 3, const Flags& flags = {}) {
  cc::DeviceOptions options;
  options.seed = seed;
  options.compiler.cache = cache();
  options.compiler.flags.insert(options.compiler.flags.end(), flags.begin(), flags.end());
  return compiled_device(options);
}
Context context(const std::string& device, uint64_t seed = 3) {
  ContextOptions options;
  options.seed = seed, options.device = device == "cpu" && on_gpu() ? "cuda" : device, options.cache = cache();
  return Context(options);
}

void expect_near(const Array& actual, const Array& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(to_string(actual.shape()), to_string(expected.shape())) << what;
  double largest = 0;
  for (double v : expected.values())
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double a = actual.at(i), e = expected.at(i);
    const bool same = a == e || (std::isnan(a) && std::isnan(e)) || std::abs(a - e) <= tolerance * largest;
    ASSERT_TRUE(same) << what << ", element " << i << ": " << a << " on the processor, " << e << " expected";
  }
}

// ---------------------------------------------------------------- every gradient case

// Each case is compiled as users compile it, at -O3, in one of the two precisions, and at -O0 in the other:
// random_program_test holds the bits of the two together.
void compare_cases(bool in_single, double tolerance) {
  const std::vector<GradientProgram> all = gradient_programs();
  ASSERT_GT(all.size(), 100u);
  constexpr size_t kTogether = 24;  // in one compilation
  for (size_t from = 0; from < all.size(); from += kTogether) {
    std::vector<Task> tasks;
    std::vector<std::string> names;
    for (size_t k = from; k < std::min(all.size(), from + kTogether); ++k) {
      Task task = task_of(all[k].program, all[k].indices);
      for (size_t o = 0; o < task.program.observed.size(); ++o)
        names.push_back(all[k].name + ", observed " + std::to_string(o));
      tasks.push_back(in_single ? in_f32(std::move(task)) : std::move(task));
    }
    const Task task = joined(tasks);
    const bool as_users_do = (from / kTogether % 2 == 0) == in_single;
    const std::vector<Array> actual = run_on(*cpu(3, as_users_do ? Flags{} : Flags{"-O0"}), task).observed,
                             expected = run_on(*interp::make_device(3), task).observed;
    for (size_t o = 0; o < expected.size(); ++o) expect_near(actual[o], expected[o], tolerance, names[o]);
  }
}

TEST(Cpu, EveryGradientCaseInF64) { compare_cases(false, kF64Tolerance); }
TEST(Cpu, EveryGradientCaseInF32) { compare_cases(true, kF32Tolerance); }

// ---------------------------------------------------------------- precisions

// What both devices say of a program, which must be the same: the interpreter hands floats out in double, which are
// rounded here. (So at most one rounding may lie between the leaves and an observed value.)
void expect_equal(const Program& program, const IndexValues& indices = {}) {
  const Task task = task_of(program, indices);
  const std::vector<Array> actual = run_on(*cpu(), task).observed,
                           expected = run_on(*interp::make_device(3), task).observed;
  for (size_t k = 0; k < expected.size(); ++k) {
    const ir::Buffer& buffer = task.program.buffers[size_t(task.program.observed[k])];
    EXPECT_EQ(actual[k].dtype(), buffer.dtype) << buffer.name;
    for (int64_t i = 0; i < expected[k].size(); ++i) {
      const double a = actual[k].at(i), e = convert(buffer.dtype, expected[k].at(i));
      EXPECT_TRUE(a == e || (std::isnan(a) && std::isnan(e)))
          << buffer.name << ", element " << i << ": " << a << " on the processor, " << e << " expected";
    }
  }
}

TEST(Cpu, NarrowFloatsAreRoundedWhereTheyAreStoredAndOnce) {
  Tensor x = param(
      "x", Array::vector({1.0009765625, -2.71828, 1000.123, 6.1e-5, 65504, 0.1, 3.0517578125e-05, 1e-8}, DType::f64));
  Tensor y = param("y", Array::vector({1.00048828125, 3.14159, -0.333, 1, 0.5, -0.1, 1.5, 2}, DType::f64));
  Program p;
  for (DType dtype : {DType::f16, DType::bf16}) {
    const std::string name(caravan::name(dtype));
    Tensor a = cast(x, dtype), b = cast(y, dtype);
    // Products of two narrow floats are exact in f32, so that each cast is the only rounding.
    p &= observe({a.named(name + " a"), cast(a * b, dtype).named(name + " product"),
                  cast(cast(a * b, dtype) * b, dtype).named(name + " twice"), cast(a, DType::f32).named(name + " back"),
                  cast(einsum("i=>i", a * b), dtype).named(name + " copied"),
                  cast(einmax("i=>", a), DType::f64).named(name + " max"), (a < b).named(name + " less")});
  }
  expect_equal(p);
  // A sum over many is kept in f32; in memory too, where windows overlap.
  Context ctx = context("cpu");
  Tensor ones = cast(full_like(tensor(Array(parse_shape("3000"))), 1), DType::f16);
  EXPECT_EQ(ctx.eval(sum(ones)).item(), 3000);
  EXPECT_EQ(ctx.eval(einsum("o=>o+k", ones, {{"k", 2}})).at(1), 2);
  EXPECT_EQ(ctx.eval(scatter_add(ones, tensor(Array(parse_shape("3000"), DType::i32)), 1)).item(), 3000);
}

TEST(Cpu, DoubleIsRoundedToFloatInEveryLoop) {  // the SLP vectoriser of GCC 12 forgets it for two elements
  std::vector<Tensor> seen;
  for (int64_t n : {1, 2, 3, 5, 6, 7, 30}) {
    Array values(parse_shape(std::to_string(n)), DType::f64);
    for (int64_t i = 0; i < n; ++i) values.set(i, 1.3204495310783386 + double(i));
    seen.push_back(cast(cast(param("x" + std::to_string(n), values), DType::f32), DType::f64));
  }
  expect_equal(observe(seen));
}

TEST(Cpu, BothBranchesOfAWhereAreLoaded) {  // or GCC 12 masks the loads of one, all vectors of them by the first
  Array a(parse_shape("4,6"), DType::f32), b(parse_shape("4,6"), DType::f32);
  for (int64_t e = 0; e < a.size(); ++e) a.set(e, double(e * 7 % 13)), b.set(e, double(e + 1));
  expect_equal(observe(sum(where(param("a", a) >= param("limit", Array::scalar(6.5, DType::f32)), 0, param("b", b)))));
}

TEST(Cpu, SelectsOverFewChannelsTakeTheRightLanes) {  // the vectoriser of GCC 12 mixes up masked loads of neighbours
  auto selected = [](const std::string& device, int64_t channels) {
    const RandomOptions shape{.batch = {8}, .output = {28, 28, channels}, .step = 0};
    Tensor x = state("x", {.batch = shape.batch, .output = shape.output, .init = zeros()}),
           y = state_like(x, "y", zeros());
    Tensor bias = state("bias", {.output = {channels}, .init = zeros()});
    Context ctx = context(device);
    ctx.run(assign(x, uniform("x", shape)) & assign(y, uniform("y", shape)) &
            assign(bias, uniform("b", {.output = {channels}, .step = 0})));
    return ctx.eval({where(x + bias > 1, y, 0.0), where(x < bias && y > 0.5, x, 2 * y)});
  };
  for (int64_t channels = 2; channels <= 8; ++channels) {
    const std::vector<Array> actual = selected("cpu", channels), expected = selected("interp", channels);
    for (size_t i = 0; i < actual.size(); ++i)
      expect_near(actual[i], expected[i], kF32Tolerance, std::to_string(channels) + " channels");
  }
}

TEST(Cpu, Integers) {
  auto leaf = [](const std::string& name, const std::vector<double>& values, DType dtype) {
    return param(name, Array::vector(values, dtype));
  };
  Program p;
  for (DType dtype : {DType::u8, DType::i32, DType::i64}) {
    const std::string name(caravan::name(dtype));
    const bool sign = dtype != DType::u8;
    Tensor a = leaf("a" + name, {7, 200, 0, sign ? -13.0 : 13, 255}, dtype),
           b = leaf("b" + name, {3, 100, 5, 4, sign ? -1.0 : 1}, dtype);
    p &= observe({a + b,
                  a * 2,
                  max(a, b),
                  min(a, b),
                  mod(a, b),
                  where(a > b, a, b),
                  a == b,
                  a / b,
                  sqrt(abs(a)),
                  sum(a),
                  einmax("i=>", a),
                  einmin("i=>", a),
                  argmax("i=>", a),
                  cast(a, DType::f32) * 0.5,
                  a > (sign ? 300 : 255),
                  a < (sign ? -1 : 0),
                  a >= 6.5,
                  clamp(a, 3, 100),
                  square(a),
                  sign ? -a : a,
                  einprod("i=>", b),
                  cast(einsum("o=>o+k", a, {{"k", 2}}), DType::i64)});
  }
  Tensor t = leaf("t", {1, 0, 1, 0}, DType::boolean), f = leaf("f", {1, 1, 0, 0}, DType::boolean);
  p &= observe({t && f, t || f, !t, t + f, sum(t), einany("i=>", t), einall("i=>", t), t == f, t < f,
                where(t, 1.5, 2.5), cast(t, DType::f64), t == 2});
  expect_equal(p);
}
TEST(Cpu, IntegersWrap) {
  Context ctx = context("cpu");
  auto eval = [&](const Tensor& t) { return ctx.eval(t).values(); };
  Tensor a = tensor(Array::vector({200, 5}, DType::u8)), b = tensor(Array::vector({100, 7}, DType::u8));
  EXPECT_EQ(eval(a + b), (std::vector<double>{44, 12}));
  EXPECT_EQ(eval((a + b) > 100), (std::vector<double>{0, 0})) << "also where it is not stored";
  EXPECT_EQ(eval(a - b - b), (std::vector<double>{0, 247}));
  EXPECT_EQ(eval(tensor(Array::vector({2147483647}, DType::i32)) + 1), (std::vector<double>{-2147483648.0}));
}
TEST(Cpu, CastsTruncateAndSaturate) {
  Tensor x = param("x", Array::vector({300, -5, 2.9, -2.9, 9e18, -1e30, std::nan(""), 4e9, 0.5}, DType::f64));
  Tensor n = param("n", Array::vector({300, -5, 3e9, -3e9, 255, 0}, DType::i64));
  expect_equal(
      observe({cast(x, DType::u8), cast(x, DType::i32), cast(x, DType::i64), cast(x, DType::boolean),
               cast(cast(x, DType::f32), DType::i32), cast(n, DType::u8), cast(n, DType::i32), cast(n, DType::boolean),
               cast(n, DType::f32), cast(cast(number(300, DType::i64), DType::u8), DType::i32)}));
  // The interpreter's doubles do not hold the largest i64.
  EXPECT_EQ(context("cpu").eval(cast(tensor(Array::vector({1e30, -1e30}, DType::f64)), DType::i64)).values(),
            (std::vector<double>{0x1p63, -0x1p63}));
}
TEST(Cpu, SpecialValues) {
  const double inf = INFINITY, nan = NAN;
  Tensor x = param("x", Array(parse_shape("3,4"), {1, nan, 3, 2, -inf, -inf, -inf, -inf, inf, 1, nan, -1}, DType::f64));
  expect_equal(
      observe({einmax("i,j=>i", x), einmin("i,j=>i", x), argmax("i,j=>i", x), argmin("i,j=>i", x), max(x, 2), min(x, 2),
               relu(x), clamp(x, -1, 1), sign(x), x == x, where(x > 0, 1, 0), einmax("i,j=>", cast(x, DType::f32))}));
}
TEST(Cpu, ANegationPlusZeroIsNoNegativeZero) {  // GCC leaves the 0 out after `-fabs(x)`
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = tensor(Array::vector({0, -0.0, 1}, dtype));
    const Array y = context("cpu").eval(-abs(x) + 0), z = context("cpu").eval(0 - abs(x));
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_FALSE(std::signbit(y.at(i))) << i;
      EXPECT_FALSE(std::signbit(z.at(i))) << i;
    }
    EXPECT_EQ(y.at(2), -1);
  }
}

// ---------------------------------------------------------------- random bits

TEST(Cpu, RandomLeavesHaveTheBitsOfTheInterpreter) {
  Index step("step");
  Tensor counter =
      state("counter",
            {.batch = Extents{}, .input = Extents{}, .output = Extents{}, .init = constant(5), .dtype = DType::i64});
  Tensor bits = random_bits("stream", {.output = {3, 5}, .step = 0}),
         stepped = random_bits("stream", {.output = {7}, .step = Operand(step).tensor}),
         counted = random_bits("stream", {.output = {7}, .step = counter});
  Tensor computed = random_bits("stream", {.output = {7}, .step = cast(Operand(step).tensor * 3 + 1, DType::i64)});
  const Program p =
      observe({bits, stepped, counted, computed, einsum("i,j=>j,i", bits), uniform("u", {.output = {9}, .step = 0}),
               bernoulli("b", 0.3, {.output = {50}, .step = 0})}) &
      assign(counter, counter + 1);
  for (int64_t s : {0, 1, 123456789}) expect_equal(p, {{step, s}});
}

// ---------------------------------------------------------------- state

TEST(Cpu, MaxPoolingSendsGradientToTheMaxima) {
  Tensor x = param("x", Array::matrix({{1, 9, 2, 8}, {3, 4, 5, 6}, {7, 1, 0, 2}, {3, 2, 6, 1}}));
  Tensor pooled = einmax("2*oh+kh, 2*ow+kw => oh, ow", x, {{"kh", 2}, {"kw", 2}}), total = sum(pooled);
  Context ctx = context("cpu");
  EXPECT_EQ(ctx.eval(pooled).values(), (std::vector<double>{9, 8, 7, 6}));
  EXPECT_EQ(ctx.eval(total).item(), 30);
  EXPECT_EQ(ctx.eval(grad(total, x)).values(), (std::vector<double>{0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0}));
}

TEST(Cpu, StateLivesAcrossPrograms) {
  Tensor a = param("a", {1, 2}), b = state("b", {.batch = Extents{}, .input = Extents{}, .output = {2}});
  Context ctx = context("cpu");
  Tensor difference = a - b;
  Routine fill = ctx.compile(assign(b, a * 10)), step = ctx.compile(assign(a, a + b)),
          see = ctx.compile(observe(difference));
  fill.run();
  step.run();
  step.run();
  EXPECT_EQ(ctx.read(a).values(), (std::vector<double>{21, 42}));
  see.run();
  EXPECT_EQ(see.read(difference).values(), (std::vector<double>{11, 22}));
}

TEST(Cpu, AssignmentsAreSimultaneous) {
  auto states = [] { return std::array{param("a", {1, 2, 3}), param("b", {4, 5, 6})}; };
  struct Row {
    const char* name;
    std::function<Program(Tensor, Tensor)> program;
    std::vector<double> a, b;  // after two runs
  };
  Index at("at");
  const Row rows[] = {
      {"swap", [](Tensor a, Tensor b) { return assign(a, b) & assign(b, a); }, {1, 2, 3}, {4, 5, 6}},
      {"rotate through sums",
       [](Tensor a, Tensor b) { return assign(a, a + b) & assign(b, a - b); },
       {2, 4, 6},
       {8, 10, 12}},
      {"reading itself backwards",
       [](Tensor a, Tensor) { return assign(a, einsum("-i=>i", a) * 2); },
       {4, 8, 12},
       {4, 5, 6}},
      {"reading itself in a sum",
       [](Tensor a, Tensor) {
         return assign(a, a / sum(a)) & assign(param("b", {4, 5, 6}), a * 1);
       },
       {1.f / 6, 2.f / 6, 3.f / 6},
       {1.f / 6, 2.f / 6, 3.f / 6}},
      {"a number", [](Tensor a, Tensor) { return assign(a, full_like(a, 7)); }, {7, 7, 7}, {4, 5, 6}},
      {"iota", [](Tensor, Tensor b) { return assign(b, cast(iota(3), DType::f32)); }, {1, 2, 3}, {0, 1, 2}},
      {"another state", [](Tensor a, Tensor b) { return assign(a, b) & assign(b, b * 2); }, {8, 10, 12}, {16, 20, 24}},
      {"an index", [&](Tensor a, Tensor) { return assign(a, full_like(a, 1) * at); }, {9, 9, 9}, {4, 5, 6}},
      {"one value for two",
       [](Tensor a, Tensor b) { return assign(a, exp(a * 0)) & assign(b, exp(a * 0)); },
       {1, 1, 1},
       {1, 1, 1}},
      {"the new value read beside the old",
       [](Tensor a, Tensor b) {
         Tensor next = exp(a * 0) + a;
         return assign(a, next) & assign(b, next * a);
       },
       {3, 4, 5},
       {6, 12, 20}},
  };
  for (const Row& row : rows) {
    for (const char* device : {"cpu", "interp"}) {
      auto [a, b] = states();
      Context ctx = context(device);
      ctx.compile(observe({a, b}));
      Routine step = ctx.compile(row.program(a, b));
      for (int run = 0; run < 2; ++run) step.run(step.indices().empty() ? IndexValues{} : IndexValues{{at, 9}});
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_FLOAT_EQ(float(ctx.read(a).at(i)), float(row.a[size_t(i)])) << row.name << " on " << device;
        EXPECT_FLOAT_EQ(float(ctx.read(b).at(i)), float(row.b[size_t(i)])) << row.name << " on " << device;
      }
    }
  }
}
TEST(Cpu, LeavesOfEveryKindCanBeAssignedAndObserved) {
  Index at("at", 5);
  Tensor n = state("n",
                   {.batch = Extents{}, .input = Extents{}, .output = Extents{}, .init = zeros(), .dtype = DType::i64}),
         r = state("r", {.batch = Extents{}, .input = Extents{}, .output = {3}, .init = zeros(), .dtype = DType::i64});
  Tensor d = param("d", {1, 2});
  const Program p = assign(n, Operand(at).tensor) & assign(r, iota(3)) &
                    observe({n, r, d, number(2.5, DType::f64), Operand(at).tensor, iota(4), tensor({3, 4}),
                             random_bits("s", {.output = {2}, .step = 0})});
  expect_equal(p, {{at, 3}});
  Context ctx = context("cpu");
  Routine run = ctx.compile(p);
  run.run({{at, 3}});
  EXPECT_EQ(ctx.read(n).item(), 3);
  EXPECT_EQ(ctx.read(r).values(), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(run.read(n).item(), 0) << "observed before the assignment";
  run.run({{at, 4}});
  EXPECT_EQ(run.read(n).item(), 3);
}
TEST(Cpu, AnObservedStateKeepsItsOldValue) {
  Tensor w = param("w", {1, 2});
  Context ctx = context("cpu");
  Routine step = ctx.compile(assign(w, w * 3) & observe(w));
  step.run();
  EXPECT_EQ(step.read(w).values(), (std::vector<double>{1, 2}));
  EXPECT_EQ(ctx.read(w).values(), (std::vector<double>{3, 6}));
  step.run();
  EXPECT_EQ(step.read(w).values(), (std::vector<double>{3, 6}));
}

TEST(Cpu, RefusalsChangeNothing) {
  Index at("at", 3);
  Tensor data = tensor(Array(parse_shape("3|2"), {1, 2, 3, 4, 5, 6})), w = param("w", {0, 0});
  Context ctx = context("cpu");
  Routine step = ctx.compile(assign(w, w + data[at]));
  expect_refusal<StateError>([&] { step.run({{at, 3}}); }, {"`at` is 3", "0..2"});
  expect_refusal<StateError>([&] { step.run({{at, -1}}); }, {"`at` is -1"});
  EXPECT_EQ(ctx.read(w).values(), (std::vector<double>{0, 0}));
  Tensor s = state("s", {.batch = Extents{}, .input = Extents{}, .output = {2}});
  Routine reads = ctx.compile(assign(w, s + 1));
  expect_refusal<StateError>([&] { reads.run(); }, {"`s` was never initialised"});
  EXPECT_EQ(ctx.read(w).values(), (std::vector<double>{0, 0}));
  ctx.run(assign(s, w + 4));
  reads.run();
  EXPECT_EQ(ctx.read(w).values(), (std::vector<double>{5, 5}));
}
TEST(Cpu, AStateThatAnotherProgramGaveAnotherShapeIsRefused) {
  auto device = cpu();
  auto writer = [&](int64_t n) {
    ir::Program p;
    p.buffers = {{"s", parse_shape(std::to_string(n)), DType::f64, ir::StateLeaf{}, {}},
                 {"v", parse_shape(std::to_string(n)), DType::f64, ir::Computed{}, {}}};
    ir::Accumulation a;
    a.target = 1, a.accumulator = *find_accumulator("add"), a.iterators = {"i"}, a.extents = {n},
    a.write = {ir::Term::iterator(0)}, a.body = ir::Body::number(1);
    p.accumulations = {a}, p.assignments = {{0, 1}};
    return p;
  };
  auto large = backend::prepare(*device, writer(100'000)).executable,
       small = backend::prepare(*device, writer(2)).executable;
  small->run({});
  expect_refusal<StateError>([&] { large->run({}); }, {"`s`", "`100000`", "compile it again"});
}
TEST(Cpu, IdsOutOfRangeContributeNothing) {
  Tensor table = matrix({{1, 2}, {3, 4}}),
         ids = tensor(Array::vector({2, 8, 0, 1}, DType::i32)) - 1;  // computed: 1 7 -1 0
  Context ctx = context("cpu");
  EXPECT_EQ(ctx.eval(gather(einsum("v,d=>v->d", table), ids)).values(), (std::vector<double>{3, 4, 0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(ctx.eval(scatter_add(tensor({1, 2, 3, 4}), ids, 2)).values(), (std::vector<double>{4, 1}));
  EXPECT_EQ(ctx.eval(exp(gather(einsum("v,d=>v->d", table), ids)) * 0 + 1).values(), std::vector<double>(8, 1))
      << "observed or not, the element is 0 and its exponential 1";
}
TEST(Cpu, IdsOfIds) {
  using ir::Term;
  auto data = [](const std::string& name, const std::vector<double>& values, DType dtype) {
    return ir::Buffer{
        name, parse_shape(std::to_string(values.size())), dtype, ir::DataLeaf{Array::vector(values, dtype)}, {}};
  };
  ir::Program p;
  p.buffers = {data("first", {2, 0, 9, 1}, DType::i32),
               data("second", {1, -1, 3}, DType::i64),
               data("table", {10, 20, 30, 40}, DType::f64),
               {"y", parse_shape("4"), DType::f64, ir::Computed{}, {}}};
  ir::Accumulation a;
  a.target = 3, a.accumulator = *find_accumulator("add"), a.iterators = {"i"}, a.extents = {4},
  a.write = {Term::iterator(0)};
  a.operands = {{2, {Term::load(1)}}, {1, {Term::load(2)}}, {0, {Term::iterator(0)}}};
  a.body = ir::Body::identity();
  p.accumulations = {a}, p.observed = {3};
  EXPECT_EQ(ir::to_string(p, a), "y[i] += table[second[first[i]]]   for i < 4");
  EXPECT_EQ(run_on(*cpu(), {p, {}, {}}).observed[0].values(), (std::vector<double>{40, 20, 0, 0}));
}
TEST(Cpu, NamesThatMeanSomethingInC) {
  Tensor total;
  double expected = 0;
  for (const char* name :
       {"for",    "int64_t", "NAN",     "linux", "r0", "r1",         "exp", "expf", "caravan_exp_f32",
        "memcpy", "seed",    "buffers", "a*/b",  "_x", "__x86_64__", "2x",  "e",    "i0",
        "main",   "ä",       "M_PI",    "fabs",  ""}) {
    if (!*name) continue;
    Tensor p = param(name, Array::vector({expected += 1, 2}));
    total = total.defined() ? total + exp(p * 0) * p : exp(p * 0) * p;
  }
  Context ctx = context("cpu"), oracle = context("interp");
  EXPECT_EQ(ctx.eval(total).values(), oracle.eval(total).values());
  Tensor stream =
      param("stream0", {1, 2, 3}) * uniform("u", {.output = {3}, .step = 0}) + param("math_errhandling", {1, 2, 3});
  EXPECT_EQ(ctx.eval(stream).shape().elements(), 3);
  Tensor parallel = exp(param("a", {.output = {512, 512}, .init = zeros()})).named("chunk");  // a kernel with chunks
  EXPECT_EQ(ctx.eval(parallel).at(7), 1);
  Index register_("register", 3), r2("r2", 3);
  EXPECT_EQ(ctx.eval(tensor({1, 2}) * register_ + r2, {{register_, 2}, {r2, 1}}).values(), (std::vector<double>{3, 5}));
}
TEST(Cpu, TheMemoryLimitIsCheckedBeforeAnythingRuns) {
  ContextOptions options;
  options.device = "cpu", options.cache = cache(), options.memory_limit = 1000;
  Context ctx(options);
  EXPECT_EQ(ctx.eval(sum(tensor({1, 2, 3}))).item(), 6);
  expect_refusal<StateError>([&] { ctx.eval(exp(tensor(Array(parse_shape("1000"))))); },
                             {"needs 40", "limit of 1000 bytes", "Try a smaller batch"});
}

}  // namespace
}  // namespace caravan
