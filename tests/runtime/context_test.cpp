// Contexts and Routines: what they keep, run and refuse.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <limits>

#include "caravan/backend/backend.h"
#include "refusal.h"
#include "this_device.h"

namespace caravan {
namespace {

using Values = std::vector<double>;

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

TEST(Context, AMakeDeviceThatGivesNoneIsRefused) {
  expect_refusal<ConfigError>(
      [] { Context({.make_device = [](const ContextOptions&) { return std::unique_ptr<backend::Device>(); }}); },
      {"make_device", "no device"});
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
  Tensor a = state("a", 1), b = state("b", 5), missing = state("missing", {.output = {2}});
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
  Tensor a = state("a", 1);
  Context one(kHere), two(kHere);
  one.run(assign(a, a + 1)), two.run(assign(a, a * 5));
  EXPECT_EQ(one.read(a).item(), 2);
  EXPECT_EQ(two.read(a).item(), 5);
  Context alias = one;  // a handle: the same state
  alias.run(assign(a, a + 1));
  EXPECT_EQ(one.read(a).item(), 3);
}

TEST(Context, StateMovesToAnotherContextByName) {  // as a checkpoint does
  Tensor w = param("w", {.input = {3}, .output = {2}}), n = state("n", 3, DType::i64), y = w(tensor({1, 2, 3})) * n;
  Context ctx(here(4)), resumed(here(5));
  Values expected = ctx.eval(y).values();
  for (const std::string& name : ctx.names()) resumed.write(name, ctx.read(name));
  EXPECT_EQ(resumed.eval(y).values(), expected);
  Context wrong(kHere);
  wrong.write("n", Array::scalar(1.5));
  expect_refusal<DTypeError>([&] { wrong.eval(y); }, {"`n`", "f32", "i64"});
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

TEST(Routine, StepsBeyondTheLargestNumberAreRefused) {
  Index step("step"), batch("batch", 3);
  Tensor total = state("total", 0, DType::i64);
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
