// Programs and Contexts: what an assignment means, how programs compose, what a Context keeps and refuses.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>

#include "caravan/backend/backend.h"
#include "refusal.h"
#include "this_device.h"

namespace caravan {
namespace {

using Values = std::vector<double>;

Tensor scalar_state(const char* name, double value, DType dtype = DType::f32) { return state(name, value, dtype); }

std::string line(int number) { return "program_test.cpp:" + std::to_string(number); }

TEST(Program, AssignmentsAreSimultaneous) {
  Tensor a = scalar_state("a", 1), b = scalar_state("b", 2);
  Context ctx(kHere);
  Routine swap = ctx.compile(assign(a, b) & assign(b, a));
  swap.run();
  EXPECT_EQ(ctx.read(a).item(), 2);
  EXPECT_EQ(ctx.read(b).item(), 1);
  swap.run();
  EXPECT_EQ(ctx.read(a).item(), 1);
}

TEST(Program, FibonacciInOneAssignmentEach) {
  Tensor a = scalar_state("a", 0, DType::i64), b = scalar_state("b", 1, DType::i64);
  Context ctx(kHere);
  Routine next = ctx.compile(assign(a, b) & assign(b, a + b));
  for (int i = 0; i < 50; ++i) next.run();
  EXPECT_EQ(ctx.read(a).item(), 12586269025);
}

TEST(Program, ThenSeesTheNewState) {
  Tensor a = scalar_state("a", 1), b = scalar_state("b", 10);
  Program both = then(assign(a, a + 1) & assign(b, b + 1), assign(a, a * b));
  Context ctx(kHere);
  ctx.run(both);
  EXPECT_EQ(ctx.read(a).item(), 22);
  EXPECT_EQ(ctx.read(b).item(), 11);
  EXPECT_EQ(both.assignments().size(), 2u);
}

TEST(Program, ObservedBeforeAndAfter) {
  Tensor a = scalar_state("a", 1), twice = a * 2, square_of = square(a);
  Program step = assign(a, a + 1) & observe(twice);
  Context ctx(kHere);
  Routine r = ctx.compile(then(step, observe(square_of)));  // twice as p saw it, the square as q does
  r.run();
  EXPECT_EQ(r.read(twice).item(), 2);
  EXPECT_EQ(r.read(square_of).item(), 4);
  Routine s = ctx.compile(then(step, step));  // both observe `twice`: q's counts
  s.run();
  EXPECT_EQ(s.read(twice).item(), 6);
  EXPECT_EQ(ctx.read(a).item(), 4);
  expect_refusal<StateError>([&] { then(step, observe(twice)) & observe(twice); }, {"`mul`", "observed twice"});
}

TEST(Program, ObservesWhatItIsAskedToAndNothingElse) {
  Tensor a = scalar_state("a", 1), seen = a + 1, unseen = a + 2;
  Context ctx(kHere);
  Routine r = ctx.compile(observe(seen) & observe(seen));
  expect_refusal<StateError>([&] { r.read(seen); }, {"no value yet", "run"});
  r.run();
  EXPECT_EQ(r.read(seen).item(), 2);
  expect_refusal<StateError>([&] { r.read(unseen); }, {"not observed", "observe(tensor)"});
  Routine state_too = ctx.compile(assign(a, a + 1) & observe(a));  // an observed state has its old value
  state_too.run();
  EXPECT_EQ(state_too.read(a).item(), 1);
  EXPECT_EQ(ctx.read(a).item(), 2);
}

TEST(Program, AddTo) {
  Tensor total = state("total", {.batch = Extents{}, .input = Extents{}, .output = {2}, .init = zeros()});
  Tensor x = tensor(Array(parse_shape("3|2"), {1, 2, 3, 4, 5, 6}));
  Context ctx(kHere);
  ctx.run(add_to(total, tensor({10, 20})));
  ctx.run(add_to(total, "n | c => c", x));
  EXPECT_EQ(ctx.read(total).values(), (Values{19, 32}));
  ctx.run(add_to(total, "n | 2*c+k => c", tensor(Array(parse_shape("1|4"), {1, 2, 3, 4})), {{"k", 2}}));
  EXPECT_EQ(ctx.read(total).values(), (Values{22, 39}));
}

TEST(Program, UpdateOfASliceIsACache) {
  Tensor cache = state("cache", {.batch = {4}, .input = Extents{}, .output = {2}, .init = constant(-1)});
  Tensor key = input("key", {.batch = Extents{}, .input = Extents{}, .output = {2}});
  Index at("at");
  Tensor scores = einsum("t | d; d => t |", cache, key);
  Program append = update(cache, at, key);
  Context ctx(kHere);
  ctx.write(key, Array::vector({3, 4}));
  Routine step = ctx.compile(append & observe(scores)), read_after = ctx.compile(then(append, observe(scores)));
  step.run({{at, 2}});
  EXPECT_EQ(ctx.read(cache).values(), (Values{-1, -1, -1, -1, 3, 4, -1, -1}));
  EXPECT_EQ(step.read(scores).values(), (Values{-7, -7, -7, -7}));
  ctx.write(key, Array::vector({0, 1}));
  read_after.run({{at, 0}});
  EXPECT_EQ(ctx.read(cache).values(), (Values{0, 1, -1, -1, 3, 4, -1, -1}));
  EXPECT_EQ(read_after.read(scores).values(), (Values{1, -1, 4, -1}));
  expect_refusal<StateError>([&] { step.run({{at, 4}}); }, {"at", "4", "0..3"});
  EXPECT_EQ(ctx.read(cache).values(), (Values{0, 1, -1, -1, 3, 4, -1, -1}));
}

TEST(Program, WhenAppliesAllOrNothing) {
  Index step("step");
  Tensor n = scalar_state("n", 0),
         v = state("v", {.batch = Extents{}, .input = Extents{}, .output = {2}, .init = ones()});
  Context ctx(kHere);
  Routine r = ctx.compile(when(mod(step, 3) == 2, assign(n, n + 1) & assign(v, v / 0.0 * 0.0)) & observe(n));
  r.run({{step, 0}}), r.run({{step, 1}});
  EXPECT_EQ(ctx.read(n).item(), 0);
  EXPECT_EQ(ctx.read(v).values(), (Values{1, 1}));  // selected, not multiplied: no NaN
  r.run({{step, 2}});
  EXPECT_EQ(ctx.read(n).item(), 1);
  EXPECT_TRUE(std::isnan(ctx.read(v).at(0)));
}

TEST(Program, IndexBindings) {
  Index i("i", 3), free("free");
  Tensor x = tensor(Array(parse_shape("3|2"), {1, 2, 3, 4, 5, 6}))[i], y = x * free;
  Context ctx(kHere);
  Routine r = ctx.compile(observe(y));
  EXPECT_EQ(r.indices().size(), 2u);
  r.run({{i, 1}, {free, 10}});
  EXPECT_EQ(r.read(y).values(), (Values{30, 40}));
  expect_refusal<StateError>([&] { r.run({{i, 1}}); }, {"`free`", "not bound"});
  expect_refusal<StateError>([&] { r.run({{i, 3}, {free, 0}}); }, {"`i` is 3", "0..2"});
  expect_refusal<StateError>([&] { r.run({{i, -1}, {free, 0}}); }, {"`i` is -1"});
  expect_refusal<StateError>([&] { Index bad("bad", -2); }, {"`bad`", "-2"});
  Index other("i", 3);
  expect_refusal<StateError>([&] { ctx.compile(observe(x * other)); }, {"two different Index", "`i`"});
}

TEST(Program, AStateIsAssignedOnce) {
  Tensor a = scalar_state("a", 1);
  Program p = assign(a, a + 1);
  std::string first = line(__LINE__ - 1), second = line(__LINE__ + 1);
  expect_refusal<StateError>([&] { (void)(p & assign(a, a + 2)); },
                             {"`a`", "assigned twice", "then(p, q)", first, second});
  expect_refusal<StateError>([&] { assign(a + 1, a); }, {"only a parameter or a state", "`a + 1`"});
}

TEST(Program, OneLeafPerName) {
  Tensor a = param("w", 1.0), b = param("w", 2.0);
  Context ctx(kHere);
  expect_refusal<StateError>([&] { ctx.eval(a + b); }, {"two different tensors", "`w`", "program_test.cpp"});
  EXPECT_EQ(ctx.eval(a).item(), 1);
  EXPECT_EQ(ctx.eval(b).item(), 1);  // in another program it is the same state, and that has a value
}

TEST(State, WithoutAnInitialiserIsRefusedAtTheRun) {
  Tensor s = state("s", {.batch = Extents{}, .input = Extents{}, .output = {2}}), y = s + 1;
  Context ctx(kHere);
  Routine r = ctx.compile(observe(y));
  expect_refusal<StateError>([&] { r.run(); }, {"`s`"});
  ctx.write(s, Array::vector({1, 2}));
  r.run();
  EXPECT_EQ(r.read(y).values(), (Values{2, 3}));
  Tensor t = state("t", {.batch = Extents{}, .input = Extents{}, .output = {2}});
  ctx.run(assign(t, y));  // assigned before it is read: needs no initial value
  EXPECT_EQ(ctx.read(t).values(), (Values{2, 3}));
}

TEST(State, IsInitialisedOnceByNameFromTheSeed) {
  auto w = [] { return param("w", {.input = {3}, .output = {2}}); };
  Context ctx(here(9)), again(here(9));
  Values first = ctx.eval(w()).values();
  EXPECT_EQ(ctx.eval(w()).values(), first);
  EXPECT_EQ(again.eval(w() * 1).values(), first);
  ctx.run(assign(w(), tensor(Array(parse_shape("3->2"), Values(6, 4)))));
  EXPECT_EQ(ctx.eval(w()).values(), Values(6, 4));
}

TEST(Context, ReadsAndWritesByNameAndByTensor) {
  Tensor a = param("a", {1, 2}), n = param("n", Array::vector({1, 2}, DType::u8));
  Context ctx(kHere);
  expect_refusal<StateError>([&] { ctx.read("a"); }, {"no state `a`"});
  EXPECT_FALSE(ctx.has("a"));
  ctx.eval({a, n});
  EXPECT_TRUE(ctx.has("a"));
  EXPECT_EQ(ctx.names(), (std::vector<std::string>{"a", "n"}));
  ctx.write("a", Array::vector({3, 4}));
  EXPECT_EQ(ctx.read(a).values(), (Values{3, 4}));
  ctx.write(a, Array::vector({5, 6}));
  EXPECT_EQ(ctx.read("a").values(), (Values{5, 6}));
  expect_refusal<ShapeError>([&] { ctx.write(a, Array::vector({1, 2, 3})); }, {"`a`", "shape 2", "3"});
  expect_refusal<ShapeError>([&] { ctx.write("a", Array(parse_shape("2|"))); }, {"`a`"});
  expect_refusal<DTypeError>([&] { ctx.write(n, Array::vector({1, 300})); }, {"`n`", "u8", "300"});
  expect_refusal<DTypeError>([&] { ctx.write(n, Array::vector({1, 2.5})); }, {"2.5"});
  EXPECT_EQ(ctx.read(a).values(), (Values{5, 6}));
  EXPECT_EQ(ctx.read(n).values(), (Values{1, 2}));
  expect_refusal<StateError>([&] { ctx.read(a + 1); }, {"computed, not state"});
  expect_refusal<StateError>([&] { ctx.write(a + 1, Array::vector({1, 2})); }, {"computed, not state"});
  expect_refusal<StateError>([&] { ctx.read("missing"); }, {"`missing`", "It has: a, n"});
}

TEST(Context, NamesThatNoProgramHasAreRefused) {
  Tensor w = param("fc.weight", {1, 2}), later = input("later", {.output = {2}});
  Context ctx(kHere);
  ctx.eval(w);
  const Array value = Array::vector({3, 4});
  expect_refusal<StateError>([&] { ctx.write("fc.wieght", value); },
                             {"no program", "`fc.wieght`", "did you mean `fc.weight`?", ".create = true"});
  expect_refusal<StateError>([&] { ctx.write("head", value); },
                             {"no program of this Context has a state `head`. To write it"});
  expect_refusal<StateError>([&] { ctx.write({{"fc.weight", value}, {"fc.wieght", value}}); }, {"`fc.wieght`"});
  EXPECT_EQ(ctx.read(w).values(), (Values{1, 2})) << "all or nothing";
  EXPECT_FALSE(ctx.has("fc.wieght"));
  ctx.write("fc.weight", value);
  ctx.write(later, value);  // a tensor says what it is
  ctx.write("other", value, {.create = true});
  ctx.write("other", Array::vector({5, 6}));
  EXPECT_EQ(ctx.unused(), (std::vector<std::string>{"other"}));
  EXPECT_EQ(ctx.eval(input("other", {.output = {2}}) + later).values(), (Values{8, 10}));
  EXPECT_EQ(ctx.unused(), std::vector<std::string>{});
}

TEST(Context, ASlipInANameWrittenBeforeTheFirstProgramIsFound) {
  Tensor w = param("fc.weight", {1, 2}), w1 = param("w1", {1, 2}), w2 = param("w2", {1, 2});
  const Array value = Array::vector({3, 4});
  for (const char* slip : {"fc.wieght", "fc.weigth", "fc.weights", "FC.weight", "fc_weight"}) {
    Context ctx(kHere);
    ctx.write(slip, value);
    expect_refusal<StateError>([&] { ctx.eval(w); },
                               {"`" + std::string(slip) + "` was written",
                                "did you mean `fc.weight`, which nothing was written to?", ".create = true"});
    EXPECT_FALSE(ctx.has("fc.weight")) << "nothing changes";
    ctx.write("fc.weight", value);  // both were written: it is no slip
    EXPECT_EQ(ctx.eval(w).values(), (Values{3, 4}));
  }
  Context brothers(kHere);
  brothers.write("w1", value);  // for a program that comes later
  EXPECT_EQ(brothers.eval(w2).values(), (Values{1, 2}));
  EXPECT_EQ(brothers.unused(), (std::vector<std::string>{"w1"}));
  EXPECT_EQ(brothers.eval(w1).values(), (Values{3, 4}));
  Context meant(kHere);
  meant.write("fc.weights", value, {.create = true});
  EXPECT_EQ(meant.eval(w).values(), (Values{1, 2}));
}

TEST(Handles, UsedAfterAMoveSaySo) {
  auto refused = [](const char* what, const std::function<void()>& use) {
    SCOPED_TRACE(what);
    expect_refusal<UserError>(use, {std::string(what) + " was used after it was moved from"});
  };
  Tensor w = param("w", {1, 2});
  Context from(kHere);
  Routine r = from.compile(observe(w) & assign(w, w + 1));
  Context ctx = std::move(from);
  Routine routine = std::move(r);
  routine.run();
  EXPECT_EQ(ctx.read(w).values(), (Values{2, 3}));
  refused("a Context", [&] { from.eval(w); });
  refused("a Context", [&] { from.read("w"); });
  refused("a Context", [&] { from.write("w", Array::vector({1, 2})); });
  refused("a Context", [&] { from.names(); });
  refused("a Routine", [&] { r.run(); });
  refused("a Routine", [&] { r.run_steps(2); });
  refused("a Routine", [&] { r.read(w); });
  refused("a Routine", [&] { r.report(); });
  Array a = Array::vector({1, 2}), b = std::move(a);
  refused("an Array", [&] { a.at(0); });
  refused("an Array", [&] { a.values(); });
  refused("an Array", [&] { a.mutable_data(); });
  refused("an Array", [&] { a.cast(DType::f64); });
  refused("an Array", [&] { ctx.eval(tensor(a) + 1); });
  Index i("i"), j = std::move(i);
  refused("an Index", [&] { i.name(); });
  refused("an Index", [&] { Tensor t = 2 * i; });
  refused("an Index", [&] { routine.run({{i, 1}}), ctx.compile(observe(w * j)).run({{i, 1}}); });
  Dim d, e = std::move(d);
  refused("a Dim", [&] { Tensor t = sqrt(d); });
  refused("a Dim", [&] { einsum("a => a", w, {{"a", d}}); });
  data::Loader loader({Array(parse_shape("4|2"))}, {.batch = 2}), loading = std::move(loader);
  EXPECT_EQ(loading.next().size(), 1u);
  refused("a Loader", [&] { loader.next(); });
  refused("a Loader", [&] { loader.step(); });
  a = b;  // a new value makes it whole
  EXPECT_EQ(a.values(), (Values{1, 2}));
}

TEST(Context, AMakeDeviceThatGivesNoneIsRefused) {
  expect_refusal<ConfigError>(
      [] { Context({.make_device = [](const ContextOptions&) { return std::unique_ptr<backend::Device>(); }}); },
      {"make_device", "no device"});
}

TEST(Routine, StepsBeyondTheLargestNumberAreRefused) {
  Index step("step"), batch("batch", 3);
  Tensor total = scalar_state("total", 0, DType::i64);
  Context ctx(kHere);
  Routine r = ctx.compile(assign(total, total + 1 + 0 * step + 0 * batch));
  const int64_t most = std::numeric_limits<int64_t>::max();
  expect_refusal<StateError>(
      [&] {
        r.run_steps(3, {{step, most - 2}, {batch, 0}});
      },
      {"`step`", std::to_string(most - 2), "3 steps"});
  EXPECT_EQ(ctx.read(total).item(), 0) << "none of them was run";
  r.run_steps(2, {{step, most - 2}, {batch, 2}});
  EXPECT_EQ(ctx.read(total).item(), 2);
}

TEST(Context, AFirstWriteMustFitWhatTheTensorSays) {
  Tensor s = input("s", {.output = {3}});
  Context ctx(kHere);
  expect_refusal<ShapeError>([&] { ctx.write(s, Array::vector({1, 2})); }, {"`s`", "3", "2"});
  EXPECT_FALSE(ctx.has("s"));
  Tensor ids = input("ids", {.dtype = DType::i32});
  expect_refusal<DTypeError>([&] { ctx.write(ids, Array::vector({1.5})); }, {"`ids`", "i32"});
  EXPECT_FALSE(ctx.has("ids"));
}

TEST(Context, TheSameNameWithAnotherPrecisionOrShapeIsRefused) {
  Context ctx(kHere);
  ctx.eval(param("w", {1, 2}));
  expect_refusal<DTypeError>([&] { ctx.eval(param("w", Array::vector({1, 2}, DType::i32))); }, {"`w`", "f32", "i32"});
  expect_refusal<ShapeError>([&] { ctx.eval(param("w", {1, 2, 3})); }, {"w", "2", "3"});
  EXPECT_EQ(ctx.read("w").values(), (Values{1, 2}));
}

TEST(Context, FailuresChangeNothing) {
  Tensor a = scalar_state("a", 1), b = scalar_state("b", 5), missing = state("missing", {.output = {2}});
  Tensor ids = input("ids", {.batch = Extents{}, .input = Extents{}, .output = {1}, .dtype = DType::i32});
  Context ctx(kHere);
  EXPECT_THROW(ctx.compile(assign(a, a + 1) & observe(tensor({1, 2}) + tensor({1, 2, 3}))), ShapeError);
  EXPECT_TRUE(ctx.names().empty());
  Routine r = ctx.compile(assign(a, a + 1) & observe(gather(tensor(Array(parse_shape("3->1"), {1, 2, 3})), ids)));
  ctx.write(ids, Array::vector({7}, DType::i32));
  EXPECT_THROW(r.run(), StateError);
  EXPECT_EQ(ctx.read(a).item(), 1);
  EXPECT_THROW(ctx.run(assign(a, a + 1) & assign(b, b + sum(missing))), StateError);
  EXPECT_EQ(ctx.read(a).item(), 1);
  EXPECT_EQ(ctx.read(b).item(), 5);
}

TEST(Context, KeptAxesOfAStateStillStretchInTheNextProgram) {
  Tensor x = tensor(Array(parse_shape("2|3"), {1, 2, 3, 4, 5, 6})), centre = state("centre");
  Context ctx(kHere);
  ctx.run(assign(centre, einsum("n | c => 0 | c", x) / 2));
  EXPECT_EQ(to_string(ctx.shape(centre)), "1|3");
  EXPECT_EQ(ctx.eval(x - centre).values(), (Values{-1.5, -1.5, -1.5, 1.5, 1.5, 1.5}));
  Tensor given = state("given", {.batch = {1}, .input = Extents{}, .output = {3}, .init = zeros()});
  expect_refusal<ShapeError>([&] { ctx.eval(x - given); }, {"given"});  // a 1 that the user gave does not stretch
}

TEST(Context, ContextsShareNothing) {
  Tensor a = scalar_state("a", 1);
  Context one(kHere), two(kHere);
  one.run(assign(a, a + 1)), two.run(assign(a, a * 5));
  EXPECT_EQ(one.read(a).item(), 2);
  EXPECT_EQ(two.read(a).item(), 5);
  Context alias = one;  // a handle: the same state
  alias.run(assign(a, a + 1));
  EXPECT_EQ(one.read(a).item(), 3);
}

TEST(Context, StateMovesToAnotherContextByName) {  // as a checkpoint does
  Tensor w = param("w", {.input = {3}, .output = {2}}), n = scalar_state("n", 3, DType::i64),
         y = w(tensor({1, 2, 3})) * n;
  Context ctx(here(4)), resumed(here(5));
  Values expected = ctx.eval(y).values();
  for (const std::string& name : ctx.names()) resumed.write(name, ctx.read(name));
  EXPECT_EQ(resumed.eval(y).values(), expected);
  Context wrong(kHere);
  wrong.write("n", Array::scalar(1.5));
  expect_refusal<DTypeError>([&] { wrong.eval(y); }, {"`n`", "f32", "i64"});
}

TEST(Dim, IsANumberOnEitherSideOfItsSpec) {  // C++ may evaluate the right operand of / first
  Tensor x = matrix({{1, 2, 3}, {4, 5, 6}});
  Context ctx(kHere);
  Dim n, m, never;
  EXPECT_EQ(ctx.eval(einsum("ij=>i", x, {{"j", n}}) / n).values(), (Values{2, 5}));
  EXPECT_EQ(ctx.eval(1.0 / m * einsum("ij=>i", x, {{"j", m}})).values(), (Values{2, 5}));
  EXPECT_EQ(ctx.eval(iota(n)).values(), (Values{0, 1, 2}));
  expect_refusal<ShapeError>([&] { ctx.eval(x * never); }, {"captured by no spec", "program_test.cpp"});
  expect_refusal<ShapeError>([&] { iota(never); }, {"no spec has captured"});
}

TEST(Tensor, ANamedStateIsStillThatState) {
  Tensor w = param("w", {1, 2}), v = w.named("v");
  Context ctx(kHere);
  EXPECT_EQ(ctx.eval(w + v).values(), (Values{2, 4}));
  EXPECT_EQ(v.name(), "v");
  EXPECT_EQ(ctx.names(), (std::vector<std::string>{"w"}));
  EXPECT_EQ(ctx.eval(grad(sum(v * w), w)).values(), (Values{2, 4}));
}

TEST(Context, DevicesHaveAKindAndAnOrdinal) {
  EXPECT_EQ(Context().device(), "cpu") << "the best there is: these tests run where there is a C compiler";
  for (const char* kind : {"cpu", "interp"}) {
    const std::string first = std::string(kind) + ":0";
    EXPECT_EQ(Context({.device = kind}).device(), kind);
    EXPECT_EQ(Context({.device = first}).device(), kind) << "the same device";
  }
  struct Row {
    const char* device;
    std::vector<std::string> phrases;
  };
  const Row rows[] = {
      {"abacus", {"device kind `abacus` is not built into this library; it has: cpu, interp, cuda."}},
      {"cuda:99", {"`cuda:99`"}},  // here are no GPUs, or fewer
      {"cpu:3", {"there is no `cpu:3`; this machine has cpu:0, interp:0"}},
      {"interp:1", {"there is no `interp:1`; this machine has cpu:0, interp:0"}},
      {"cpu:", {"`cpu:` does not name a device", "`cpu:0`"}},
      {"cpu:x", {"`cpu:x` does not name a device"}},
      {"cpu:-1", {"`cpu:-1` does not name a device"}},
      {"cpu:0x", {"`cpu:0x` does not name a device"}},
      {"cpu:99999999999", {"`cpu:99999999999` does not name a device"}},
      {"", {"device kind `` is not built"}},
  };
  for (const Row& row : rows) expect_refusal<ConfigError>([&] { Context ctx({.device = row.device}); }, row.phrases);
}

TEST(Context, StateGoesToAnotherDeviceAndBack) {
  Index batch("batch", 4);
  Tensor x = tensor(
      Array(parse_shape("4,2|3"), {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 3, 5, 2, 4, 6, 8, 1, 2, 5, 4, 3, 2, 1, 0}))[batch];
  Tensor w = param("w", {.output = {2}}), loss = sum(square(w(x) - 1)) / 10;
  Program step = train_step(loss, adam({.lr = 0.01}));  // moments in f32, a counter in i64
  Context cpu({.seed = 3, .device = "cpu"}), plain({.seed = 3, .device = "cpu"}), look({.device = "interp"});
  Routine train = cpu.compile(step), alone = plain.compile(step);
  train.run_steps(5, {{batch, 0}}), alone.run_steps(10, {{batch, 0}});

  copy_states(cpu, look);
  EXPECT_EQ(look.names(), cpu.names());
  EXPECT_GT(look.names().size(), 3u);
  EXPECT_NEAR(look.eval(loss, {{batch, 1}}).item(), cpu.eval(loss, {{batch, 1}}).item(), 1e-5);
  Context again({.device = "cpu"});
  copy_states(look, again);
  again.compile(step).run_steps(5, {{batch, 1}});
  for (const std::string& name : plain.names()) {
    EXPECT_EQ(again.read(name).values(), plain.read(name).values()) << name << ": the same bits as without the detour";
    EXPECT_EQ(again.read(name).dtype(), plain.read(name).dtype()) << name;
  }

  Context other({.device = "interp"});
  other.write("a", Array::scalar(1)), other.write("w", Array::vector({1, 2}));
  look.write("a", Array::scalar(7), {.create = true});
  expect_refusal<ShapeError>([&] { copy_states(look, other); }, {"`w` has the shape 2", "3->2"});
  EXPECT_EQ(other.read("a").item(), 1) << "nothing is copied where one does not fit";
  EXPECT_EQ(other.names(), (std::vector<std::string>{"a", "w"}));
  copy_state(look, other, "a");
  EXPECT_EQ(other.read("a").item(), 7);
  expect_refusal<StateError>([&] { copy_state(look, other, "missing"); }, {"no state `missing`"});
}

TEST(Ids, ThatTheHostGaveAreCheckedBeforeTheRun) {
  auto table = [] { return param("table", Array(parse_shape("3->2"), {1, 3, 5, 2, 4, 6})); };  // the rows 1 2, 3 4, 5 6
  auto data = [](std::vector<double> ids) { return tensor(Array::vector(ids, DType::i32), "ids"); };
  Context ctx(kHere);
  EXPECT_EQ(ctx.eval(gather(table(), data({2, 0}))).values(), (Values{5, 6, 1, 2}));
  expect_refusal<StateError>(
      [&] {
        ctx.compile(observe(gather(table(), data({2, 0, 3}))));
      },
      {"`ids` holds the id 3 at [2]", "ids of input axis 1 of `table` (gather, ", "0..2", "program_test.cpp:"});
  expect_refusal<StateError>(
      [&] {
        ctx.compile(observe(scatter_add(tensor({1, 2}), data({0, -1}), 4)));
      },
      {"`ids` holds the id -1 at [1]", "0..3"});

  // Slices of data: every batch is looked at.
  Index batch("batch", 2);
  auto batches = [&](double last) {
    return gather(table(), tensor(Array(parse_shape("2|2"), {0, 1, 2, last}, DType::i32), "tokens")[batch]);
  };
  EXPECT_EQ(ctx.eval(batches(0), {{batch, 1}}).values(), (Values{5, 6, 1, 2}));
  expect_refusal<StateError>([&] { ctx.compile(observe(batches(9))); }, {"`tokens` holds the id 9 at [1, 1]"});

  // States, after each write by the host.
  Tensor ids = input("input", {.batch = Extents{}, .input = Extents{}, .output = {2}, .dtype = DType::i32});
  Tensor n = scalar_state("n", 0), rows = gather(table(), ids);
  Routine r = ctx.compile(assign(n, n + 1) & observe(rows));
  ctx.write(ids, Array::vector({1, 1}, DType::i32));
  r.run();
  EXPECT_EQ(r.read(rows).values(), (Values{3, 4, 3, 4}));
  ctx.write(ids, Array::vector({1, 3}, DType::i32));
  for (int twice = 0; twice < 2; ++twice)
    expect_refusal<StateError>([&] { r.run(); }, {"`input` holds the id 3 at [1]", "0..2"});
  expect_refusal<StateError>([&] { r.run_steps(3); }, {"`input` holds the id 3"});
  EXPECT_EQ(ctx.read(n).item(), 1) << "nothing has run";
  ctx.write(ids, Array::vector({0, 2}, DType::i32));
  r.run();
  EXPECT_EQ(r.read(rows).values(), (Values{1, 2, 5, 6}));
}

TEST(Ids, ThatAreComputedContributeNothingWhereTheyAreOutOfRange) {
  Tensor table = param("table", Array(parse_shape("3->2"), {1, 3, 5, 2, 4, 6}));             // the rows 1 2, 3 4, 5 6
  Tensor ids = tensor(Array::vector({1, 8, 0}, DType::i32)) - 1, rows = gather(table, ids);  // 0 7 -1
  Context ctx(kHere);
  EXPECT_EQ(ctx.eval(rows).values(), (Values{1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(ctx.eval(grad(sum(rows * rows), table)).values(), (Values{2, 0, 0, 4, 0, 0}));
  EXPECT_EQ(ctx.eval(scatter_add(tensor({10, 20, 30}), ids, 2)).values(), (Values{10, 0}));
  Tensor kept =
      state("kept", {.batch = Extents{}, .input = Extents{}, .output = {3}, .init = zeros(), .dtype = DType::i32});
  Tensor seen = gather(table, kept);
  Routine r = ctx.compile(assign(kept, kept + 2) & observe(seen));  // a state that a program assigned is computed too
  r.run(), r.run(), r.run();
  EXPECT_EQ(r.read(seen).values(), Values(6, 0));
  Tensor again = seen * 1;
  EXPECT_EQ(ctx.eval(again).values(), Values(6, 0)) << "also for a program that meets it later";
  ctx.write(kept, Array::vector({0, 9, 0}, DType::i32));
  expect_refusal<StateError>([&] { ctx.eval(again); }, {"`kept` holds the id 9 at [1]"});
}

TEST(Precision, PromotionSeenThroughTensors) {
  auto of = [](DType dtype) { return tensor(Array::vector({1, 0}, dtype)); };
  Tensor b = of(DType::boolean), u8 = of(DType::u8), i32 = of(DType::i32), i64 = of(DType::i64), f16 = of(DType::f16),
         bf16 = of(DType::bf16), f32 = of(DType::f32), f64 = of(DType::f64);
  struct Row {
    const char* text;
    Tensor value;
    DType dtype;
  };
  const Row rows[] = {
      {"i32 + i32", i32 + i32, DType::i32},
      {"i32 / i32", i32 / i32, DType::f32},
      {"u8 + i32", u8 + i32, DType::i32},
      {"i32 + i64", i32 + i64, DType::i64},
      {"i64 + f16", i64 + f16, DType::f16},
      {"f16 + bf16", f16 + bf16, DType::f32},
      {"f32 * f64", f32 * f64, DType::f64},
      {"exp(i32)", exp(i32), DType::f32},
      {"exp(f16)", exp(f16), DType::f16},
      {"b + b", b + b, DType::i32},
      {"b && b", b && b, DType::boolean},
      {"i32 < f32", i32 < f32, DType::boolean},
      {"sum(b)", sum(b), DType::i32},
      {"sum(u8)", sum(u8), DType::i32},
      {"sum(i64)", sum(i64), DType::i64},
      {"sum(f16)", sum(f16), DType::f16},
      {"largest(u8)", largest(u8), DType::u8},
      {"product(b)", product(b), DType::i32},
      {"i32 + 1", i32 + 1, DType::i32},
      {"i32 + 1.5", i32 + 1.5, DType::f32},
      {"i32 + 1.0", i32 + 1.0, DType::f32},
      {"f16 * 2", f16 * 2, DType::f16},
      {"f16 * 0.5", f16 * 0.5, DType::f16},
      {"f64 * 0.5", f64 * 0.5, DType::f64},
      {"1 + 0.5 * f16", (Operand(1) + 0.5) * f16, DType::f16},
      {"where(b, 1, f32)", where(b, 1, f32), DType::f32},
      {"where(b, i32, f32)", where(b, i32, f32), DType::f32},
      {"-b", -b, DType::i32},
      {"cast", cast(f32, DType::u8), DType::u8},
      {"argmax", argmax("i=>", f32), argmax("i=>", f64).dtype()},
      {"einsum b", einsum("i;i=>", b, b), DType::i32},
      {"any", einany("i=>", f32), DType::boolean},
      {"relu(i32)", relu(i32), DType::i32},
      {"floor(f16)", floor(f16), DType::f16},
      {"iota", iota(3), DType::i32},
      {"f32 == f32", f32 == f32, DType::boolean},
      {"bf16 + 1", bf16 + 1, DType::bf16},
  };
  Context ctx(kHere);
  for (const Row& row : rows) {
    EXPECT_EQ(row.value.dtype(), row.dtype) << row.text << " is " << name(row.value.dtype());
    EXPECT_NO_THROW(ctx.eval(row.value)) << row.text;
  }
}

TEST(Precision, Conversions) {
  Context ctx(kHere);
  Tensor x = tensor({-1.5, 0.0, 2.5, 300.0});
  EXPECT_EQ(ctx.eval(cast(x, DType::i32)).values(), (Values{-1, 0, 2, 300}));
  EXPECT_EQ(ctx.eval(cast(x, DType::u8)).values(), (Values{0, 0, 2, 255}));
  EXPECT_EQ(ctx.eval(cast(x, DType::boolean)).values(), (Values{1, 0, 1, 1}));
  EXPECT_EQ(ctx.eval(tensor(Array::vector({7, 1}, DType::i32)) / 2).values(), (Values{3.5, 0.5}));
  EXPECT_EQ(ctx.eval(cast(tensor({2049.0}), DType::f16)).values(), (Values{2048}));
  expect_refusal<DTypeError>([] { number(300, DType::u8); }, {"300", "u8", "255"});
  expect_refusal<DTypeError>([] { number(1e40, DType::f32); }, {"f32"});
  expect_refusal<DTypeError>([] { gather(param("t", {.input = {3}, .output = {2}}), tensor({1.0})); },
                             {"gather", "f32", "integers"});
  EXPECT_EQ(ctx.eval(tensor(Array::vector({1, 2}, DType::i32))).dtype(), DType::i32);
  EXPECT_EQ(ctx.eval(x > 0).dtype(), DType::boolean);
}

TEST(Routine, RunsManyStepsAsIfOneByOne) {
  for (const char* device : {"interp", "cpu"}) {
    Index batch("batch", 3), step("step");
    Tensor x = tensor(Array(parse_shape("3,2|"), {1, 2, 3, 4, 5, 6}))[batch];
    Tensor total = state("total", {.batch = Extents{}, .input = Extents{}, .output = Extents{}, .init = zeros()});
    Program p = assign(total, 0.5 * total + sum(x) * step) & observe(total);
    Context one({.device = device}), many({.device = device});
    Routine r = one.compile(p), s = many.compile(p);
    for (int i = 0; i < 8; ++i) r.run({{batch, (i + 1) % 3}, {step, i + 4}});
    s.run_steps(8, {{batch, 1}, {step, 4}});
    EXPECT_EQ(one.read(total).item(), many.read(total).item()) << device;
    EXPECT_EQ(r.read(total).item(), s.read(total).item()) << device << ": observed is that of the last step";
    s.run_steps(0, {{batch, 0}, {step, 0}});
    EXPECT_EQ(one.read(total).item(), many.read(total).item()) << device;
    EXPECT_THROW(s.run_steps(2, {{batch, 3}, {step, 0}}), StateError) << device;
    EXPECT_THROW(s.run_steps(2, {{batch, 0}}), StateError) << device;
  }
}

}  // namespace
}  // namespace caravan
