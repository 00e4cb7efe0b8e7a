// Functions of arrays, inputs of several sizes, states in the caller's memory, Contexts that read another's states.
#include "caravan/runtime/function.h"

#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <thread>

#include "refusal.h"
#include "temporary_folder.h"
#include "this_device.h"

namespace caravan {
namespace {

using Values = std::vector<double>;

TEST(Function, IsCompiledForEachSizeOnce) {
  Context ctx(here(1));
  nn::Mlp net("net", {.widths = {5, 3}});
  Function predict(ctx, net);
  const Array x = random_normal({.batch = {7}, .output = {4}}, 1);
  const Array all = predict(x);
  EXPECT_EQ(to_string(all.shape()), "7|3");
  for (int64_t i = 0; i < 7; ++i) {
    const Array one = predict(x.part(i, 1));
    EXPECT_EQ(to_string(one.shape()), "1|3");
    for (int64_t c = 0; c < 3; ++c) EXPECT_NEAR(one.at(c), all.at(i * 3 + c), 1e-6);
  }
  EXPECT_EQ(predict.sizes(), 2);
  EXPECT_EQ(predict(x).values(), all.values());
  EXPECT_EQ(predict.sizes(), 2);
  predict(x.cast(DType::f64));
  EXPECT_EQ(predict.sizes(), 3);
}

TEST(Function, TrainsOnALastBatchThatIsSmaller) {
  Context ctx(here(1));
  nn::Linear model("model", {.output = {1}});
  const Array x = random_normal({.batch = {50}, .output = {2}}, 1);
  const Array y = ctx.eval(einsum("b | i => b | 0", tensor(x)));
  Optimizer optimizer = adam({.lr = 0.1});
  Function step(ctx, [&](Tensor x, Tensor y) { return train_step(nn::mse(model(x), y), optimizer); });
  double loss = 1;
  for (int epoch = 0; epoch < 60; ++epoch)
    for (const data::Arrays& batch : data::batches(data::shuffled({x, y}, uint64_t(epoch)), 16))
      loss = step(batch[0], batch[1]).item();
  EXPECT_LT(loss, 1e-2);
  EXPECT_EQ(step.sizes(), 2);
  EXPECT_EQ(ctx.read("model.weight.adam.step").item(), 60 * 4);  // one optimiser for both sizes
}

TEST(Function, TakesWhatIsCalledWithTensors) {
  Context ctx(here());
  struct {
    Tensor operator()(const Tensor& x, const nn::Phase& phase) const { return phase.training() ? x : 2 * x; }
  } model;
  EXPECT_EQ(Function(ctx, model)(rows({1, 2})).values(), (Values{2, 4}));
  Function two(ctx, [](Tensor a, Tensor b) { return std::vector<Tensor>{a + b, a * b}; });
  EXPECT_EQ(two(rows({3}), rows({4})).item(), 7);
  EXPECT_EQ(two.run({rows({3}), rows({4})})[1].item(), 12);
  Index step("step");
  Function with_index(ctx, [&](Tensor a) { return a + step; });
  EXPECT_EQ(with_index.run({rows({3})}, {{step, 5}})[0].item(), 8);
  expect_refusal([&] { two(rows({1})); }, {"called with 1 array", "cannot be called"});
  Tensor total = state("total", 0);
  Function add(ctx, [&](Tensor a) { return add_to(total, sum(a)); });
  expect_refusal([&] { add(rows({1})); }, {"observes nothing", ".run("});
  add.run({rows({1, 2})});
  EXPECT_EQ(ctx.read(total).item(), 4);
}

TEST(Inputs, MayHaveSeveralSizes) {
  Context ctx(here());
  auto of = [](int64_t n) { return input("x", {.batch = {n}, .input = Extents{}, .output = {2}}); };
  Tensor two = of(2), five = of(5), sum2 = sum(two), sum5 = sum(five);
  Routine of_two = ctx.compile(observe(sum2));
  ctx.write(two, rows({{1, 2}, {3, 4}}));
  of_two.run();
  EXPECT_EQ(of_two.read(sum2).item(), 10);
  Routine of_five = ctx.compile(observe(sum5));
  expect_refusal([&] { of_two.run(); }, {"`x`", "5|2", "compiled for 2|2"});
  ctx.write("x", random_ids({.batch = {5}, .output = {2}}, 1, 0).cast(DType::f32));
  of_five.run();
  EXPECT_EQ(of_five.read(sum5).item(), 0);
  for (int round = 0; round < 3; ++round) {
    ctx.write("x", rows({{1, 2}, {3, 4}}));
    expect_refusal([&] { of_five.run(); }, {"2|2", "compiled for 5|2"});
    of_two.run();
    EXPECT_EQ(of_two.read(sum2).item(), 10);
    ctx.write(five, std::vector<float>(10, 1.5f));
    of_five.run();
    EXPECT_EQ(of_five.read(sum5).item(), 15);
  }
  expect_refusal([&] { ctx.write("x", rows({{1, 2}, {1, 2}, {1, 2}})); }, {"3|2", "cannot be written"});
  Tensor seven = of(7), sum7 = sum(seven);
  ctx.write(seven, Array({.batch = {7}, .output = {2}}, Values(14, 1)));  // before its program
  EXPECT_EQ(ctx.eval(sum7).item(), 14);
  // What a program assigns is no input: its size stays.
  Tensor state2 = state("s", {.batch = {2}, .input = Extents{}, .output = {}}),
         state3 = state("s", {.batch = {3}, .input = Extents{}, .output = {}});
  ctx.write(state2, rows({1, 2}));
  ctx.run(assign(state2, state2 + 1));
  expect_refusal([&] { ctx.eval(state3); }, {"`s`"});
}

TEST(Memory, IsTheCallers) {
  Context ctx(here());
  Tensor x = input("x", {.batch = {2}, .input = Extents{}, .output = {2}}),
         w = param("w", {.output = {2}, .init = ones()});
  Tensor y = x + w;
  expect_refusal([&] { ctx.write("x", std::vector<float>{1}); }, {"sizes of `x` are not known"});
  Routine add = ctx.compile(observe(y));
  const std::vector<float> floats = {1, 2, 3, 4};
  ctx.write(x, floats);
  add.run();
  EXPECT_EQ(add.read(y).values(), (Values{2, 3, 4, 5}));
  const std::vector<size_t> sizes = {5, 6, 7, 8};
  ctx.write("x", sizes);
  add.run();
  EXPECT_EQ(add.read(y).values(), (Values{6, 7, 8, 9}));
  std::vector<float> out(4);
  add.read(y, std::span(out));
  EXPECT_EQ(out, (std::vector<float>{6, 7, 8, 9}));
  expect_refusal<ShapeError>([&] { add.read(y, std::span(out).first(3)); }, {"4 elements", "memory of 3"});
  ctx.read(x, std::span(out));
  EXPECT_EQ(out, (std::vector<float>{5, 6, 7, 8}));
  std::vector<int> whole(2);
  ctx.read("w", std::span(whole));
  EXPECT_EQ(whole, (std::vector<int>{1, 1}));
  EXPECT_EQ(ctx.view(x).values(), (Values{5, 6, 7, 8}));
  if (ctx.device() == "cpu") {
    EXPECT_EQ(ctx.view("x").data(), ctx.view(x).data());
  }
  expect_refusal<ShapeError>([&] { ctx.write(x, std::vector<float>{1}); }, {"`x`", "4 elements", "1 numbers"});
  expect_refusal<ShapeError>([&] { ctx.read(x, std::span(whole)); }, {"`x`", "4 elements", "memory of 2"});
  expect_refusal<StateError>([&] { ctx.read("y", std::span(whole)); }, {"no state `y`"});
}

TEST(Reader, PredictsInOtherThreads) {
  Context ctx(here(1));
  nn::Mlp net("net", {.widths = {16, 3}, .activation = nn::Tanh()});
  Function predict(ctx, net);
  const Array x = random_normal({.batch = {40}, .output = {6}}, 1);
  const Array expected = predict(x);
  std::vector<std::thread> threads;
  std::vector<std::vector<double>> results(4);
  std::vector<std::string> problems(4);
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      try {
        Function mine = predict.in(ctx.reader());
        for (int64_t i = 0; i < 10; ++i) {
          const Array some = mine(x.part(int64_t(t) * 10 + i, 1));
          for (double v : some.values()) results[t].push_back(v);
        }
        mine(x);
      } catch (const std::exception& e) {
        problems[t] = e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < results.size(); ++t) {
    EXPECT_EQ(problems[t], "");
    ASSERT_EQ(results[t].size(), 30u);
    for (size_t i = 0; i < 30; ++i) EXPECT_NEAR(results[t][i], expected.at(int64_t(t * 30 + i)), 1e-6);
  }
}

TEST(Reader, SharesMemoryAndPlansAndChangesNothing) {
  const TemporaryFolder cache;  // without plans of earlier processes: such a plan is made when somebody asks for it
  ContextOptions options = here(1);
  options.cache = cache.path;
  Context ctx(options);
  Tensor w = param("w", {1, 2}), x = input("x", {.batch = Extents{}, .input = Extents{}, .output = {2}}), y = w * x;
  Routine predict = ctx.compile(observe(y)), train = ctx.compile(train_step(sum(square(w)), sgd({.lr = 0.25})));
  ctx.write(x, Array::vector({3, 4}));
  {
    Context reader = ctx.reader();
    Routine mine = reader.compile(observe(y));
    if (ctx.device() == "cpu") {
      EXPECT_EQ(&mine.plan(), &predict.plan());  // nothing was planned again
      EXPECT_EQ(reader.view(w).data(), ctx.view(w).data());
    }
    EXPECT_FALSE(reader.has("x"));  // inputs are its own
    reader.write(x, Array::vector({5, 6}));
    mine.run();
    EXPECT_EQ(mine.read(y).values(), (Values{5, 12}));
    predict.run();
    EXPECT_EQ(predict.read(y).values(), (Values{3, 8}));
    ctx.write(x, Array::vector({7, 8}));

    expect_refusal<StateError>([&] { reader.write(w, Array::vector({0, 0})); }, {"`w`", "reader"});
    expect_refusal<StateError>([&] { reader.compile(assign(w, w + 1)); }, {"`w`", "reader"});
    expect_refusal<StateError>([&] { ctx.write(w, Array::vector({0, 0})); }, {"`w`", "1 reader"});
    expect_refusal<StateError>([&] { train.run(); }, {"`w`", "1 reader"});
    expect_refusal<StateError>([&] { train.run_steps(2); }, {"`w`", "1 reader"});
    EXPECT_EQ(ctx.read(w).values(), (Values{1, 2}));
  }
  train.run();  // the reader has gone
  EXPECT_EQ(ctx.read(w).values(), (Values{0.5, 1}));
}

}  // namespace
}  // namespace caravan
