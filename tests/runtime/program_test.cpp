// Programs: what an assignment means, and how programs compose.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>

#include "refusal.h"
#include "this_device.h"

namespace caravan {
namespace {

using Values = std::vector<double>;

std::string line(int number) { return "program_test.cpp:" + std::to_string(number); }

TEST(Program, AssignmentsAreSimultaneous) {
  Tensor a = state("a", 1), b = state("b", 2);
  Context ctx(kHere);
  Routine swap = ctx.compile(assign(a, b) & assign(b, a));
  swap.run();
  EXPECT_EQ(ctx.read(a).item(), 2);
  EXPECT_EQ(ctx.read(b).item(), 1);
  swap.run();
  EXPECT_EQ(ctx.read(a).item(), 1);
}

TEST(Program, FibonacciInOneAssignmentEach) {
  Tensor a = state("a", 0, DType::i64), b = state("b", 1, DType::i64);
  Context ctx(kHere);
  Routine next = ctx.compile(assign(a, b) & assign(b, a + b));
  for (int i = 0; i < 50; ++i) next.run();
  EXPECT_EQ(ctx.read(a).item(), 12586269025);
}

TEST(Program, ThenSeesTheNewState) {
  Tensor a = state("a", 1), b = state("b", 10);
  Program both = then(assign(a, a + 1) & assign(b, b + 1), assign(a, a * b));
  Context ctx(kHere);
  ctx.run(both);
  EXPECT_EQ(ctx.read(a).item(), 22);
  EXPECT_EQ(ctx.read(b).item(), 11);
  EXPECT_EQ(both.assignments().size(), 2u);
}

TEST(Program, ObservedBeforeAndAfter) {
  Tensor a = state("a", 1), twice = a * 2, square_of = square(a);
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
  Tensor a = state("a", 1), seen = a + 1, unseen = a + 2;
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
  Tensor n = state("n", 0), v = state("v", {.batch = Extents{}, .input = Extents{}, .output = {2}, .init = ones()});
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
  Tensor a = state("a", 1);
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

}  // namespace
}  // namespace caravan
