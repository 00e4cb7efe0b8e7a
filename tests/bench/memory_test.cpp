// How much memory the training steps need that `caravan bench` measures, and how they run with less.
#include <gtest/gtest.h>

#include "apps/bench/workload.h"
#include "caravan/caravan.h"
#include "caravan/plan/plan.h"
#include "contains.h"

using namespace caravan;

namespace {

plan::MemoryPlan memory_of(const bench::Workload& workload, int64_t limit = 0) {
  return Context({.device = "interp", .memory_limit = limit}).plan(workload.program, host(1))->memory;
}

TEST(BenchMemory, IsAlmostTheLeastPossible) {
  for (const bench::Entry& entry : bench::entries()) {
    const plan::MemoryPlan memory = memory_of(entry.make({}));
    EXPECT_GE(memory.bytes, memory.live) << entry.name;
    EXPECT_LE(memory.ratio(), 1.2) << entry.name << ": " << memory.bytes << " bytes, " << memory.live << " live";
  }
}

// Computing values again changes no bit of the losses.
TEST(BenchMemory, ThreeFifthsOfItGiveTheSameLosses) {
  const bench::Workload workload = bench::find("gpt-char-b4")[0].make({.small = true});
  const int64_t less = memory_of(workload).bytes * 3 / 5;
  auto losses = [&](int64_t limit) {
    Context ctx({.seed = 1, .device = "cpu", .compiler_flags = {"-O0"}, .memory_limit = limit});
    Routine routine = ctx.compile(workload.program);
    EXPECT_TRUE(limit == 0 || routine.report().arena_bytes <= limit) << routine.report().arena_bytes;
    return bench::losses(routine, workload, 20);
  };
  EXPECT_EQ(losses(less), losses(0));
}
TEST(BenchMemory, HalfOfItIsEnoughAtFullSize) {
  for (const char* name : {"gpt-char-b4", "names-transformer"}) {
    const bench::Workload workload = bench::find(name)[0].make({});
    const int64_t half = memory_of(workload).bytes / 2;
    EXPECT_LE(memory_of(workload, half).bytes, half) << name;
  }
}

// What is computed again does not separate the kernels of attention: those of a layer are one forward, one for the
// gradient, and at most one that computes the result again.
TEST(BenchMemory, LessOfItKeepsAttentionTogether) {
  if (!host(1).fma) GTEST_SKIP() << "this processor has no fused multiply-add, and no kernels of attention";
  const bench::Workload workload = bench::find("gpt-char-b4")[0].make({});
  const int64_t all = memory_of(workload).bytes;
  for (const double share : {0.75, 0.5}) {
    const auto plan =
        Context({.device = "interp", .memory_limit = int64_t(double(all) * share)}).plan(workload.program, host(1));
    int forward = 0, gradient = 0;
    for (const loop::Kernel& kernel : plan->scheduled.kernels)
      if (const loop::Attention* a = loop::attention(kernel))
        ++(a->part == loop::Attention::Part::forward ? forward : gradient);
    EXPECT_EQ(gradient, 6) << share;
    EXPECT_GE(forward, 6) << share;
    EXPECT_LE(forward, 12) << share;
  }
}
TEST(BenchMemory, HalfOfAttentionGivesTheSameParameters) {
  const nn::Gpt model({.vocab = 20, .ctx = 64, .dim = 48, .heads = 3, .layers = 3, .init = normal_init(0, 0.3)});
  Array text(parse_shape("2,64|"), DType::i32);
  for (int64_t i = 0; i < text.size(); ++i) text.set(i, double(i * 7919 % 20));
  const Tensor ids = tensor(text), y = model(ids, nn::training());
  const Program step = train_step(mean(square(y)), adam({.lr = 0.001}));
  auto plan_of = [&](int64_t limit) {
    return Context({.device = "interp", .memory_limit = limit}).plan(step, host(1));
  };
  const int64_t half = plan_of(0)->memory.bytes / 2;
  const auto plan = plan_of(half);
  const auto& kernels = plan->scheduled.kernels;
  EXPECT_EQ(std::any_of(kernels.begin(), kernels.end(), loop::attention), host(1).fma);
  auto trained = [&](int64_t limit) {
    Context ctx({.seed = 1, .device = "cpu", .compiler_flags = {"-O1"}, .memory_limit = limit});
    Routine routine = ctx.compile(step);
    for (int n = 0; n < 4; ++n) routine.run();
    std::vector<double> out;
    for (const Tensor& parameter : parameters(y)) {
      const Array value = ctx.read(parameter);
      for (int64_t i = 0; i < value.size(); ++i) out.push_back(value.at(i));
    }
    return out;
  };
  EXPECT_EQ(trained(half), trained(0));
}
TEST(BenchMemory, LessThanIsPossibleIsRefused) {
  const bench::Workload workload = bench::find("mnist-mlp")[0].make({});
  try {
    memory_of(workload, 100'000);
    ADD_FAILURE() << "100 kB are enough";
  } catch (const StateError& error) {
    EXPECT_CONTAINS(std::string(error.what()), "MB for its buffers, more than the limit of 100000 bytes");
    EXPECT_CONTAINS(std::string(error.what()), "Try a smaller batch");
  }
}

}  // namespace
