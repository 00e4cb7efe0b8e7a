// Programs on several devices compute what one device computes.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "caravan/backend/interp/device.h"
#include "caravan/backend/mesh_device.h"
#include "caravan/backend/streams/streams.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"
#include "caravan/plan/cost.h"
#include "caravan/plan/plan.h"
#include "caravan/target/target.h"
#include "caravan/tensor/graph.h"

namespace caravan {
namespace {

ContextOptions on(const Mesh& mesh, const std::string& device = "interp", uint64_t seed = 3) {
  ContextOptions out;
  out.seed = seed, out.device = device, out.mesh = mesh;
  out.compiler_flags = {"-O0"};
  return out;
}

void expect_close(const Array& a, const Array& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  double largest = 1e-3;
  for (int64_t k = 0; k < a.size(); ++k) largest = std::max(largest, std::abs(a.at(k)));
  for (int64_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a.at(k), b.at(k), tolerance * largest) << what << " at " << k;
}

// Runs a program on one device and on a mesh, and compares observed tensors and states.
void expect_same(const Program& program, const Mesh& mesh, const std::string& device, int steps = 3,
                 const IndexValues& first = {}, double tolerance = 0) {
  if (tolerance == 0) tolerance = device == "interp" ? 1e-12 : 2e-5;
  Context one(on({}, device)), many(on(mesh, device));
  Routine a = one.compile(program), b = many.compile(program);
  a.run_steps(steps, first), b.run_steps(steps, first);
  for (const Tensor& t : program.observed_as()) expect_close(a.read(t), b.read(t), tolerance, t.node().label);
  ASSERT_EQ(one.names(), many.names());
  for (const std::string& name : one.names()) {
    EXPECT_EQ(one.read(name).shape(), many.read(name).shape());
    expect_close(one.read(name), many.read(name), tolerance, name);
  }
}

struct Example {
  Index batch{"batch", 4};
  Index step{"step"};
  Program program;
};
Example mlp(const std::function<void(Tensor& w1, Tensor& w2)>& place_weights = {}) {
  Example out;
  const auto moons = data::half_moons({.points = 48, .noise = 0.1, .seed = 1});
  Tensor x = place(moons.points.batches(12)[out.batch].named("x"), "data"),
         y = place(moons.labels.batches(12)[out.batch].named("y"), "data");
  Tensor w1 = param("w1", {.output = {8}}), b1 = param("b1", {.output = {8}, .init = zeros()}),
         w2 = param("w2", {.output = {1}});
  Tensor used1 = w1, used2 = w2;
  if (place_weights) place_weights(used1, used2);
  Tensor hidden = relu(used1(x) + b1);
  hidden = where(bernoulli("drop", 0.2, {.like = hidden, .step = out.step}), 0.0, hidden / 0.8);
  Tensor loss = (sum(relu(1 - y * used2(hidden))) / 12).named("loss");
  out.program = train_step(loss, adam({.lr = 0.05}));
  return out;
}

TEST(Mesh, DataParallelTrainingIsThatOfOneDevice) {
  const Example e = mlp();
  for (int devices : {1, 2, 3, 4})
    for (const char* device : {"interp", "cpu"})
      expect_same(e.program, {{"data", devices}}, device, 20, {{e.batch, 0}, {e.step, 0}}, 1e-5);
}

TEST(Mesh, AWeightMayBeDivided) {
  const Example output = mlp([](Tensor& w1, Tensor&) { w1 = place(w1, "model", RowKind::output); });
  const Example input = mlp([](Tensor&, Tensor& w2) { w2 = place(w2, "model", RowKind::input); });
  for (const Example* e : {&output, &input})
    for (const char* device : {"interp", "cpu"}) {
      expect_same(e->program, {{"model", 2}}, device, 10, {{e->batch, 0}, {e->step, 0}}, 1e-5);
      expect_same(e->program, {{"data", 2}, {"model", 2}}, device, 10, {{e->batch, 0}, {e->step, 0}}, 1e-5);
    }
}

// A weight and its bias, the moments of its optimiser and the weight that follows: each device has half of them.
TEST(Mesh, StatesThatFollowAWeightAreDividedWithIt) {
  const Example e = mlp([](Tensor& w1, Tensor&) { w1 = place(w1, "model", RowKind::output); });
  Context ctx(on({{"model", 2}}));
  Routine step = ctx.compile(e.program);
  const ir::Program& program = step.plan().program;
  std::map<std::string, std::string> divided;
  for (const ir::Placement& p : program.placements)
    if (const ir::Buffer& b = program.buffers[size_t(p.buffer)]; std::holds_alternative<ir::StateLeaf>(b.kind))
      divided[b.name] = to_string(b.shape);
  const std::map<std::string, std::string> expected = {
      {"b1", "4"},    {"b1.adam.mean", "4"},    {"b1.adam.square", "4"},
      {"w1", "2->4"}, {"w1.adam.mean", "2->4"}, {"w1.adam.square", "2->4"},
      {"w2", "4->1"}, {"w2.adam.mean", "4->1"}, {"w2.adam.square", "4->1"}};
  EXPECT_EQ(divided, expected);
  EXPECT_EQ(to_string(ctx.read("w1").shape()), "2->8");
}

// Heads are divided: queries, keys and values of a head are computed where the head is.
TEST(Mesh, AttentionMayBeDividedByItsHeads) {
  for (const bool causal : {false, true}) {
    nn::CrossAttention attention("attention", {.dim = 8, .heads = 4, .causal = causal});
    attention.q.weight = place(attention.q.weight, "model", RowKind::output);
    attention.proj.weight = place(attention.proj.weight, "model", RowKind::input);
    const Tensor x = uniform("x", {.batch = {2, 6}, .output = {8}, .step = 0});
    const Program program = train_step(mean(square(attention(x, x))), adam({.lr = 0.1}));
    for (const char* device : {"interp", "cpu"})
      for (const Mesh& mesh : {Mesh{{"model", 2}}, Mesh{{"model", 4}}}) expect_same(program, mesh, device, 5);
  }
}

// Batch norm needs the mean of all examples in the middle of the step; dropout the bits of each example.
TEST(Mesh, ModelsWithBatchNormAndConvolutionsAreDividedByTheBatch) {
  const Index step("step");
  nn::Conv2d conv("conv", {.channels = 4, .bias = false});
  nn::BatchNorm norm("norm");
  nn::Linear out("out", {.output = {3}});
  const nn::Phase phase = nn::training({.step = step});
  const Tensor x = place(uniform("x", {.batch = {12}, .output = {8, 8, 1}, .step = step}), "data");
  const Tensor labels = place(cast(uniform("y", {.batch = {12}, .step = step}) * 3, DType::i32), "data");
  Tensor h = relu(norm(conv(x, phase), phase));
  h = einmax("... | 2*i+k, 2*j+l, c => ... | i, j, c", h, {{"k", 2}, {"l", 2}});
  const Tensor logits = out(mean("... | i, j, c => ... | c", h), phase);
  const Tensor right = mean(argmax("... | c => ... |", logits) == labels);
  const Program program = train_step(nn::cross_entropy(logits, labels), adam({.lr = 0.02})) & phase.updates() &
                          observe(right) & observe(logits);
  for (const char* device : {"interp", "cpu"})
    for (int devices : {2, 3}) expect_same(program, {{"data", devices}}, device, 6, {{step, 0}});
}

// All states after some steps, by name.
std::map<std::string, Array> trained(const Program& program, const Mesh& mesh, const IndexValues& first,
                                     int steps = 30) {
  Context ctx(on(mesh, "cpu"));
  ctx.compile(program).run_steps(steps, first);
  std::map<std::string, Array> out;
  for (const std::string& name : ctx.names()) out.emplace(name, ctx.read(name));
  return out;
}
void expect_same_bits(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b,
                      const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a)
    for (int64_t k = 0; k < value.size(); ++k) ASSERT_EQ(value.at(k), b.at(name).at(k)) << what << ": " << name;
}

struct Images {
  Index step{"step"};
  Program program;
};
// A convolution with batch norm, a maximum, an argmax and a table whose gradient is added through indices.
Images images() {
  Images out;
  nn::Conv2d conv("conv", {.channels = 4, .bias = false});
  nn::BatchNorm norm("norm");
  nn::Embedding table("table", {.num = 5, .dim = 3});
  nn::Linear last("out", {.output = {3}});
  const nn::Phase phase = nn::training({.step = out.step});
  const Tensor x = place(uniform("x", {.batch = {24}, .output = {8, 8, 1}, .step = out.step}), "data");
  const Tensor ids = place(cast(uniform("ids", {.batch = {24}, .step = out.step}) * 5, DType::i32), "data");
  const Tensor labels = place(cast(uniform("y", {.batch = {24}, .step = out.step}) * 3, DType::i32), "data");
  Tensor h = relu(norm(conv(x, phase), phase));
  h = einmax("... | 2*i+k, 2*j+l, c => ... | i, j, c", h, {{"k", 2}, {"l", 2}});
  const Tensor logits = last(mean("... | i, j, c => ... | c", h), phase) + table(ids);
  out.program = train_step(nn::cross_entropy(logits, labels), adam({.lr = 0.02})) & phase.updates();
  return out;
}

// The sums over a batch are added in the same parts, so that every bit is the same.
TEST(Mesh, FewerDevicesWithTheSamePartsComputeTheSameBits) {
  const Example e = mlp();
  const Images i = images();
  for (const bool convolution : {false, true}) {
    const Program& program = convolution ? i.program : e.program;
    const IndexValues first = convolution ? IndexValues{{i.step, 0}} : IndexValues{{e.batch, 0}, {e.step, 0}};
    const int steps = convolution ? 8 : 30;
    for (const int64_t n : {2, 3, 4}) {
      const auto many = trained(program, {{"data", n}}, first, steps);
      expect_same_bits(many, trained(program, {{"data", 1, n}}, first, steps), "one device as " + std::to_string(n));
      if (n == 4) expect_same_bits(many, trained(program, {{"data", 2, 4}}, first, steps), "two devices as four");
    }
    // Six parts of twelve are no subtree of the tree in which twelve are added, and neither are three.
    const auto one = trained(program, {{"data", 1, 12}}, first, steps);
    for (const int64_t n : {2, 3, 4})
      expect_same_bits(one, trained(program, {{"data", n, 12}}, first, steps), std::to_string(n) + " as twelve");
    expect_same_bits(one, trained(program, divided_states(Mesh{{"data", 2, 12}}), first, steps), "divided states");
  }
}

// Each device keeps its part of the moments and updates its part of a weight; the bits stay the same.
TEST(Mesh, StatesOfOptimisersMayBeDivided) {
  const Example e = mlp();
  const IndexValues first = {{e.batch, 0}, {e.step, 0}};
  for (const int64_t n : {2, 4})
    expect_same_bits(trained(e.program, {{"data", n}}, first),
                     trained(e.program, divided_states(Mesh{{"data", n}}), first), std::to_string(n) + " devices");
  Context ctx(on(divided_states(Mesh{{"data", 2}})));
  const Routine step = ctx.compile(e.program);
  const ir::Program& program = step.plan().program;
  std::map<std::string, std::string> shapes;
  for (const ir::Buffer& b : program.buffers)
    if (std::holds_alternative<ir::StateLeaf>(b.kind) && b.shape.rank() > 0) shapes[b.name] = to_string(b.shape);
  const std::map<std::string, std::string> expected = {
      {"b1", "8"},    {"b1.adam.mean", "4"},    {"b1.adam.square", "4"},
      {"w1", "2->8"}, {"w1.adam.mean", "2->4"}, {"w1.adam.square", "2->4"},
      {"w2", "8->1"}, {"w2.adam.mean", "4->1"}, {"w2.adam.square", "4->1"}};
  EXPECT_EQ(shapes, expected);
  EXPECT_EQ(to_string(ctx.read("w1.adam.mean").shape()), "2->8");
}

// How many values the collectives of a plan exchange, by kind.
std::map<std::string, size_t> exchanged_values(const plan::Plan& plan) {
  std::map<std::string, size_t> out;
  for (const loop::Kernel& kernel : plan.scheduled.kernels)
    if (const loop::LibraryCall* call = loop::library_call(kernel))
      if (auto* collective = std::get_if<loop::LibraryCall::Collective>(&call->function))
        out[std::string(ir::name(collective->exchange.kind))] += call->reads.size();
  return out;
}

// A device that updates a part of a weight gets that part of its gradient, and the new weights are gathered: together
// the bytes of an all-reduce.
TEST(Mesh, GradientsThatAreNeededInPartsAreScattered) {
  const Example e = mlp();
  Context ctx(on({}));
  const auto plan = [&](const Mesh& mesh) { return ctx.plan(e.program, host(1), mesh); };
  const auto whole = plan({{"data", 4}}), parts = plan(divided_states(Mesh{{"data", 4}}));
  EXPECT_EQ(exchanged_values(*whole), (std::map<std::string, size_t>{{"all_reduce", 4}}));  // and the loss
  EXPECT_EQ(exchanged_values(*parts),
            (std::map<std::string, size_t>{{"all_reduce", 1}, {"reduce_scatter", 3}, {"all_gather", 3}}));
  const auto sent = [](const plan::Plan& p) {
    double out = 0;
    for (const loop::Kernel& kernel : p.scheduled.kernels)
      if (const loop::LibraryCall* call = loop::library_call(kernel);
          call && std::holds_alternative<loop::LibraryCall::Collective>(call->function))
        out += plan::exchange_cost(p.scheduled, *call, 4).sent;
    return out;
  };
  EXPECT_EQ(sent(*parts), sent(*whole));
}

// The norm of all gradients is a sum of what each device has of them: of each gradient, one number is exchanged.
TEST(Mesh, TheNormOfGradientsThatAreScatteredIsAddedUp) {
  const Tensor x = place(uniform("x", {.batch = {8}, .output = {4}, .step = 0}), "data");
  const Tensor b = param("b", {.output = {3}});  // cannot be divided: the whole of its gradient is needed
  nn::Embedding table("table", {.num = 6, .dim = 4});
  const Tensor ids = place(cast(uniform("ids", {.batch = {8}, .step = 0}) * 6, DType::i32), "data");
  const Tensor loss = mean(square(param("w", {.output = {3}})(x + table(ids)) + b));
  const Program clipped = train_step(loss, adam({.lr = 0.1}), clip_by_global_norm(0.01));
  const Mesh mesh = divided_states(Mesh{{"data", 2}});
  EXPECT_EQ(exchanged_values(*Context(on({})).plan(clipped, host(1), mesh)),
            (std::map<std::string, size_t>{{"all_reduce", 4}, {"reduce_scatter", 2}, {"all_gather", 2}}));
  for (const char* device : {"interp", "cpu"}) expect_same(clipped, mesh, device);
  for (const int64_t n : {2, 4})
    expect_same_bits(trained(clipped, divided_states(Mesh{{"data", 1, n}}), {}),
                     trained(clipped, divided_states(Mesh{{"data", n}}), {}), std::to_string(n) + " devices");
}

// A weight divided by its outputs, one by its inputs, and one by its outputs again: between the last two, each device
// needs a part of the sum over all devices.
TEST(Mesh, ASumThatIsDividedAgainIsScattered) {
  Tensor w1 = param("w1", {.output = {8}}), w2 = param("w2", {.output = {6}}), w3 = param("w3", {.output = {3}});
  w1 = place(w1, "model", RowKind::output), w3 = place(w3, "model", RowKind::input);
  const Tensor x = uniform("x", {.batch = {4}, .output = {5}, .step = 0});
  const Program program = train_step(mean(square(w3(tanh(w2(tanh(w1(x))))))), adam({.lr = 0.1}));
  for (const Mesh& mesh : {Mesh{{"model", 2}}, Mesh{{"data", 2}, {"model", 2}}}) {
    EXPECT_GT(exchanged_values(*Context(on({})).plan(program, host(1), mesh))["reduce_scatter"], 0u);
    for (const char* device : {"interp", "cpu"}) expect_same(program, mesh, device, 5);
  }
}

// A program without `place`: batches that an index cuts out of data are divided.
TEST(Mesh, APolicyDividesBatches) {
  const Index batch("batch", 4);
  const auto moons = data::half_moons({.points = 48, .noise = 0.1, .seed = 1});
  const Tensor x = moons.points.batches(12)[batch], y = moons.labels.batches(12)[batch];
  const Tensor loss = sum(relu(1 - y * param("w", {.output = {1}})(x)));
  const Program program = train_step(loss, sgd({.lr = 0.01}));
  expect_same(program, data_parallel(3), "interp", 4, {{batch, 0}});
  Context ctx(on(data_parallel(3)));
  EXPECT_FALSE(ctx.compile(program).plan().program.placements.empty());
  Context five(on(data_parallel(5)));
  EXPECT_THROW(five.compile(program), ConfigError);
}

TEST(Mesh, WhatIsExchangedIsMeasured) {
  const Example e = mlp();
  Context ctx(on({{"data", 2}}, "cpu"));
  ctx.compile(e.program).run_steps(5, {{e.batch, 0}, {e.step, 0}});
  const Exchanged exchanged = ctx.take_exchanged();
  EXPECT_GT(exchanged.seconds, 0);
  EXPECT_GT(exchanged.bytes, 0);
  EXPECT_LE(exchanged.hidden(), 1);
  EXPECT_EQ(ctx.take_exchanged().bytes, 0);
}

TEST(Mesh, ARunRepeatsBitForBit) {
  const Example e = mlp();
  std::map<std::string, Array> first;
  for (int run = 0; run < 3; ++run) {
    Context ctx(on({{"data", 3}}, "cpu"));
    ctx.compile(e.program).run_steps(30, {{e.batch, 0}, {e.step, 0}});
    for (const std::string& name : ctx.names()) {
      const Array value = ctx.read(name);
      if (run == 0) {
        first.emplace(name, value);
        continue;
      }
      for (int64_t k = 0; k < value.size(); ++k) ASSERT_EQ(value.at(k), first.at(name).at(k)) << name;
    }
  }
}

// Small sums go together in one call, and other kernels run while it is under way.
TEST(Mesh, SmallCollectivesBecomeOneCall) {
  const Example e = mlp();
  Context ctx(on({{"data", 2}}));
  const Routine step = ctx.compile(e.program);
  size_t calls = 0, values = 0;
  for (const loop::Kernel& kernel : step.plan().scheduled.kernels)
    if (const loop::LibraryCall* call = loop::library_call(kernel);
        call && std::holds_alternative<loop::LibraryCall::Collective>(call->function))
      ++calls, values += call->reads.size();
  EXPECT_EQ(values, 4u);  // the loss, and the gradients of w1, b1 and w2
  EXPECT_EQ(calls, 1u);
}

// Kernels of a GPU are ordered by stages, but a collective still begins after what it sends is computed and before the
// rest of the backward pass, and its wait stands before the kernels that need it.
TEST(Mesh, OnAGpuCollectivesKeepTheirPlaces) {
  nn::Mlp model("model", {.widths = {400, 400, 400, 400, 3}});
  const Tensor x = place(uniform("x", {.batch = {64}, .output = {400}, .step = 0}), "data");
  const Program program = train_step(mean(square(model(x))), adam({.lr = 0.1}));
  const auto plan = Context(on({})).plan(program, gpu_target(), Mesh{{"data", 2}});
  const std::vector<loop::Kernel>& kernels = plan->scheduled.kernels;
  size_t waits = 0, begun_first = 0;  // collectives that begin before the first wait
  for (size_t k = 0; k < kernels.size(); ++k) {
    const loop::LibraryCall* call = loop::library_call(kernels[k]);
    if (!call) continue;
    if (std::holds_alternative<loop::LibraryCall::Collective>(call->function) && waits == 0) ++begun_first;
    auto* wait = std::get_if<loop::LibraryCall::Wait>(&call->function);
    if (!wait) continue;
    ++waits;
    ASSERT_LT(wait->kernel, k);
    const loop::LibraryCall* begun = loop::library_call(kernels[wait->kernel]);
    ASSERT_TRUE(begun && std::holds_alternative<loop::LibraryCall::Collective>(begun->function));
    EXPECT_EQ(begun->writes, call->writes);
    auto has = [](const std::vector<ir::BufferId>& list, ir::BufferId id) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    for (size_t other = 0; other < kernels.size(); ++other)
      loop::for_each_access(kernels[other], [&](const loop::Access& a) {
        if (other == k || other == wait->kernel) return;
        EXPECT_FALSE(has(call->writes, a.buffer) && other < k) << "a kernel needs what has not arrived";
        EXPECT_FALSE(has(call->reads, a.buffer) && other > wait->kernel) << "what is sent is not there yet";
      });
  }
  EXPECT_GE(waits, begun_first);
  EXPECT_GE(begun_first, 3u);
}

TEST(Mesh, ACheckpointOfOneNumberOfDevicesIsResumedOnAnother) {
  const Example e = mlp([](Tensor& w1, Tensor&) { w1 = place(w1, "model", RowKind::output); });
  Context one(on({})), two(on({{"data", 2}, {"model", 2}})), three(on({{"data", 3}}));
  one.compile(e.program).run_steps(9, {{e.batch, 0}, {e.step, 0}});
  two.compile(e.program).run_steps(4, {{e.batch, 0}, {e.step, 0}});
  Routine rest = three.compile(e.program);
  copy_states(two, three);
  rest.run_steps(5, {{e.batch, 0}, {e.step, 4}});
  for (const std::string& name : one.names()) expect_close(one.read(name), three.read(name), 1e-10, name);
}

// A device that fails stops the others, which would wait for it for ever.
TEST(Mesh, AFailureOnOneDeviceEndsTheRun) {
  const auto communicators = streams::make_communicators(3);
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (int rank = 1; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      const float own = 1;
      float sum = 0;
      const backend::Reduced part{&own, &sum, 1, DType::f32, Accumulator::add};
      try {
        communicators[size_t(rank)]->all_reduce({0, 1, 2}, {&part, 1});
      } catch (const BackendError& error) {
        ended += std::string(error.what()) == "the disk is full";
      }
    });
  communicators[0]->stop("the disk is full");
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ended, 2);
}

// One of two processes; the second finds out where it says something else than the first.
class OneOfTwo : public backend::Communicator {
 public:
  OneOfTwo(int rank, std::map<std::string, std::string>& said) : rank_(rank), said_(said) {}
  int rank() const override { return rank_; }
  int devices() const override { return 2; }
  void all_reduce(const std::vector<int>&, std::span<const backend::Reduced>) override {}
  void all_gather(const std::vector<int>&, std::span<const backend::Gathered>) override {}
  void reduce_scatter(const std::vector<int>&, std::span<const backend::Reduced>) override {}
  void agree(const std::string& what, const std::string& text) override {
    if (rank_ == 0) said_[what] = text;
    if (said_[what] != text) throw backend::Disagreement(what);
  }
  void stop(const std::string&) override {}

 private:
  int rank_;
  std::map<std::string, std::string>& said_;
};

TEST(Mesh, ProcessesSayWhatDiffersInTheirPrograms) {
  struct Case {
    double lr = 0.1, factor = 2, limit = 1;
    uint64_t seed = 1;
  };
  const auto program = [](const Case& c) {
    const auto moons = data::half_moons({.points = 8, .noise = 0.1, .seed = c.seed});
    const Tensor x = place(tensor(moons.points, "points"), "data"), w = param("w", {.output = {1}});
    return train_step(mean(square(w(x) * c.factor)), sgd({.lr = c.lr}), clip_by_global_norm(c.limit));
  };
  const auto differs = [&](const Case& first, const Case& second) -> std::string {
    const Mesh mesh{{"data", 2}};
    std::map<std::string, std::string> said;
    for (int rank = 0; rank < 2; ++rank) {
      const auto exchange = std::make_shared<backend::Exchange>(std::make_shared<OneOfTwo>(rank, said), mesh);
      std::vector<backend::Worker> workers;
      workers.push_back({interp::make_device(1, exchange), exchange});
      try {
        const auto plan = Context(on({})).plan(program(rank == 0 ? first : second), host(1), mesh);
        backend::make_mesh_device(std::move(workers))->prepare(plan);
      } catch (const backend::Disagreement& error) {
        return error.what();
      }
    }
    return "nothing";
  };
  EXPECT_EQ(differs({}, {}), "nothing");
  EXPECT_EQ(differs({}, {.lr = 0.2}), "another number `lr`");
  EXPECT_EQ(differs({}, {.limit = 0.5}), "another number `limit`");
  EXPECT_EQ(differs({}, {.seed = 2}), "other data `points`");
  EXPECT_EQ(differs({}, {.factor = 3}), "another program");
}

// Each device gets its slice of what an all-reduce gives, bit for bit; a slice may have several stripes.
TEST(Mesh, AReduceScatterIsAPartOfAnAllReduce) {
  for (const int devices : {1, 2, 3, 5})
    for (const int stripes : {1, 4})
      for (const DType dtype : {DType::f32, DType::f16, DType::i64})
        for (const Accumulator accumulator : {Accumulator::add, Accumulator::max}) {
          const int count = 7, elements = devices * stripes * count;
          const auto communicators = streams::make_communicators(devices);
          std::vector<int> group;
          for (int rank = 0; rank < devices; ++rank) group.push_back(rank);
          std::vector<std::thread> threads;
          std::atomic<int> wrong{0};
          for (int rank = 0; rank < devices; ++rank)
            threads.emplace_back([&, rank] {
              std::vector<double> values;
              for (int k = 0; k < elements; ++k) values.push_back(std::round(std::sin(k * devices + rank) * 1e3) / 8);
              const auto size = [](int n) { return parse_shape(std::to_string(n) + "|"); };
              const Array own(size(elements), values, dtype);
              Array all(size(elements), dtype), part(size(stripes * count), dtype);
              const backend::Reduced to_all{own.data(), all.mutable_data(), elements, dtype, accumulator},
                  to_parts{own.data(), part.mutable_data(), elements, dtype, accumulator, stripes};
              communicators[size_t(rank)]->all_reduce(group, {&to_all, 1});
              communicators[size_t(rank)]->reduce_scatter(group, {&to_parts, 1});
              for (int k = 0; k < stripes * count; ++k)
                wrong += part.at(k) != all.at((k / count * devices + rank) * count + k % count);
            });
          for (std::thread& t : threads) t.join();
          EXPECT_EQ(wrong, 0) << devices << " devices, " << stripes << " stripes, " << name(dtype);
        }
}

// Any number of values, wherever they lie in memory.
TEST(Mesh, ValuesAreCombinedOneByOne) {
  for (const DType dtype :
       {DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const Accumulator accumulator : {Accumulator::add, Accumulator::mul, Accumulator::max, Accumulator::min})
      for (const size_t rows : {2, 3})
        for (const int64_t count : {1, 3, 16, 37}) {
          const int64_t first = 2, most = dtype == DType::boolean ? 2 : 5;
          std::vector<std::vector<char>> memory(rows + 1, std::vector<char>(size_t(first + count) * 8 + 1));
          auto at = [&](size_t row) { return memory[row].data() + 1; };  // nothing lies at a multiple of its size
          auto value = [&](size_t row, int64_t k) { return double((k * 7 + int64_t(row) * 3) % most); };
          std::vector<const void*> from;
          for (size_t r = 0; r < rows; ++r) {
            for (int64_t k = first; k < first + count; ++k) store(dtype, at(r), k, value(r, k));
            from.push_back(at(r));
          }
          backend::combine(from, at(rows), first, first + count, dtype, accumulator);
          for (int64_t k = first; k < first + count; ++k) {
            double expected = value(0, k);
            for (size_t r = 1; r < rows; ++r) {
              const double other = value(r, k);
              switch (accumulator) {
                case Accumulator::add: expected += other; break;
                case Accumulator::mul: expected *= other; break;
                case Accumulator::max: expected = std::max(expected, other); break;
                default: expected = std::min(expected, other);
              }
            }
            if (dtype == DType::boolean) expected = expected != 0;
            EXPECT_EQ(double(load(dtype, at(rows), k)), expected)
                << row(accumulator).name << " of " << rows << " rows of " << count << " " << name(dtype) << ", " << k;
          }
        }
}

TEST(Mesh, IsWrittenAndReadAsText) {
  EXPECT_EQ(to_string(parse_mesh("data=2, model=4")), "data=2, model=4");
  EXPECT_EQ(parse_mesh("data=2,model=4").devices(), 8);
  EXPECT_EQ((Mesh{{"data", 2}, {"model", 3}}).along(0, 4), (std::vector<int>{1, 4}));
  EXPECT_EQ(to_string(parse_mesh("data=1/4,model=2/2")), "data=1/4, model=2");
  for (const char* wrong : {"data", "data=0", "=2", "data=2,data=3", "data=x", "data=2/", "data=2/0", "data=2/4x"})
    EXPECT_THROW(parse_mesh(wrong), ConfigError) << wrong;
  EXPECT_NO_THROW(check(parse_mesh("data=1/3,model=2/8")));
  EXPECT_NO_THROW(check(parse_mesh("data=2/6,model=4/12")));
  for (const char* wrong : {"data=2/3", "data=4/6", "data=3000000000", "data=65536,model=32768,pipe=4294967296"})
    EXPECT_THROW(check(parse_mesh(wrong)), ConfigError) << wrong;
  EXPECT_THROW(check(divided_states(Mesh{{"data", 2}}, "model")), ConfigError);
  for (const Mesh& wrong : {Mesh{{"data", 0}}, Mesh{{"data", -2}}, Mesh{{"data", 2}, {"data", 2}}})
    EXPECT_THROW(Context({.device = "interp", .mesh = wrong}), ConfigError) << to_string(wrong);
}

void expect_refused(const Program& program, const Mesh& mesh, const std::string& why) {
  Context ctx(on(mesh));
  try {
    ctx.compile(program);
    ADD_FAILURE() << "not refused: " << why;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(Mesh, WhatDoesNotDivideIsRefused) {
  expect_refused(mlp().program, {{"data", 5}},
                 "batch axis 1 has size 12, which is not a multiple of 5 (the mesh is data=5); 10 and 15 are.");
  expect_refused(mlp().program, {{"data", 2, 8}},
                 "batch axis 1 has size 12, which is not a multiple of 8 (the mesh is data=2/8); 8 and 16 are.");
  EXPECT_THROW(Context(on({{"data", 2000}})), ConfigError);
  expect_refused(mlp().program, {{"data", 13}}, "which is not a multiple of 13 (the mesh is data=13); 13 is.");
  const auto placed = [](const std::function<Tensor(const Tensor&)>& place) {
    return Program().add_observed(sum(place(uniform("x", {.batch = {4}, .output = {8}, .step = 0}))));
  };
  expect_refused(placed([](const Tensor& x) { return place(place(x, "data"), "data", RowKind::output); }),
                 {{"data", 2}}, "is placed on `data` twice: batch axis 1 and output axis 1");
  expect_refused(placed([](const Tensor& x) { return place(x, "data", RowKind::input); }), {{"data", 2}},
                 "has the shape 4|8, which has no input axis 0 (axes are numbered from 0)");
}

}  // namespace
}  // namespace caravan
