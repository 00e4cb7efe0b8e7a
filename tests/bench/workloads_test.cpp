// What `caravan bench` measures: the right models, computed right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/bench/measure.h"
#include "caravan/loop/walk.h"
#include "caravan/parity/parity.h"
#include "caravan/plan/cost.h"
#include "caravan/plan/plan.h"

using namespace caravan;

namespace {

// Without optimisation: what -O3 makes of programs is for other tests.
ContextOptions compiled() { return {.seed = 1, .device = "cpu", .compiler_flags = {"-O0"}}; }
ContextOptions interpreted() { return {.seed = 1, .device = "interp"}; }

std::string test_name(const testing::TestParamInfo<bench::Entry>& info) {
  std::string out = info.param.name;
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

class TrainingStep : public testing::TestWithParam<bench::Entry> {};
TEST_P(TrainingStep, HasTheLossesOfTheInterpreter) {
  const bench::Workload workload = GetParam().make({.small = true});
  auto losses = [&](const ContextOptions& options) {
    Context ctx(options);
    Routine routine = ctx.compile(workload.program);
    return Array::vector(bench::losses(routine, workload, 50), DType::f64);
  };
  const Array theirs = losses(interpreted());
  const parity::Difference difference = parity::difference("losses", losses(compiled()), theirs);
  EXPECT_TRUE(difference.passed()) << difference.relative;
  EXPECT_LE(difference.limit, 1e-4);
  EXPECT_NE(theirs.at(0), theirs.at(49)) << "nothing was trained";
}
INSTANTIATE_TEST_SUITE_P(Bench, TrainingStep, testing::ValuesIn(bench::training_steps()), test_name);

TEST(Bench, ProductsAreThoseOfTheInterpreter) {
  for (const bench::Entry& entry : bench::find("gemm")) {
    const bench::Workload workload = entry.make({.small = true});
    const Array ours = Context(compiled()).eval(workload.result), theirs = Context(interpreted()).eval(workload.result);
    ASSERT_EQ(ours.shape(), theirs.shape());
    for (int64_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours.at(i), theirs.at(i), 1e-4) << entry.name;
  }
}

// Products of matrices are where the time goes. All that matter are computed in tiles, but for a single row (batch 1),
// and for the gradients of convolutions, whose windows have guards.
TEST(Bench, ProductsThatMatterAreComputedInTiles) {
  for (const bench::Entry& entry : bench::training_steps()) {
    const std::set<std::string> left = {"camelax-mnist", "camelax-mul", "moons", "lenet"};
    if (left.count(entry.name) || entry.for_gpu) continue;
    const std::shared_ptr<const plan::Plan> plan = Context({.device = "cpu"}).plan(entry.make({}).program, host(1));
    int64_t all = 0;
    for (const loop::Kernel& kernel : plan->scheduled.kernels) all += plan::cost(plan->scheduled, kernel).flops;
    for (const loop::Kernel& kernel : plan->scheduled.kernels) {
      const int64_t flops = plan::cost(plan->scheduled, kernel).flops;
      const bool fused =
          loop::find_of<loop::Combine>(statements(kernel), [](const auto& c) { return c.factor >= 0; }) ||
          loop::find_of<loop::StoreCombine>(statements(kernel), [](const auto& c) { return c.factor >= 0; });
      if (!fused || flops * 100 <= all) continue;
      EXPECT_FALSE(kernel.contractions.empty()) << entry.name << ": " << kernel.name << ", " << loops_text(kernel);
    }
  }
}

// How the steps of the largest models would run on a GPU can be seen without one.
TEST(Bench, ModelsForAGpuArePlannedWithoutOne) {
  for (const bench::Entry& entry : bench::training_steps()) {
    if (!entry.for_gpu) continue;
    const auto plan = Context({.device = "interp"}).plan(entry.make({}).program, gpu_target());
    EXPECT_LE(plan->memory.ratio(), 1.2) << entry.name;
    EXPECT_LE(plan->memory.bytes, 60'000'000'000) << entry.name;
    // Weights are f32, but products are computed from bf16. What is added to their results may be f32.
    int64_t all = 0, narrow = 0;
    for (const loop::Kernel& kernel : plan->scheduled.kernels) {
      const int64_t flops = plan::cost(plan->scheduled, kernel).flops;
      if (kernel.contractions.empty()) continue;
      all += flops;
      bool only_narrow = true;
      loop::for_each_access(kernel, [&](const loop::Access& a) {
        const ir::Buffer& buffer = plan->scheduled.buffers[size_t(a.buffer)];
        only_narrow = only_narrow && (a.write || buffer.shape.elements() < 100'000 || buffer.dtype == DType::bf16);
      });
      narrow += only_narrow ? flops : 0;
    }
    EXPECT_GE(double(narrow), 0.8 * double(all)) << entry.name;
  }
}

// Millions of operations at the sizes that are measured, counted by hand.
TEST(Bench, OperationsAreCounted) {
  const std::pair<const char*, double> cases[] = {
      {"camelax-mnist", 0.4396},   {"camelax-mul", 0.0614},   {"moons", 0.0176},          {"names-mlp-b32", 2.227},
      {"names-mlp-b1024", 71.27},  {"names-mlp-bn", 2.227},   {"names-wavenet", 24.28},   {"names-transformer", 634.6},
      {"mnist-mlp", 410.8},        {"lenet", 985.2},          {"gpt-char", 72'631},       {"gemm-1024-tn", 2147.5},
      {"gpt-char-b64", 1'162'096}, {"gpt2-124m", 28'004'000}, {"gemm-128x784x100", 20.07}};
  for (const auto& [name, millions] : cases)
    EXPECT_NEAR(bench::find(name)[0].make({}).flops / 1e6, millions, 0.002 * millions) << name;
}

TEST(Bench, NamesFindFamilies) {
  EXPECT_EQ(bench::find("names-mlp").size(), 3u);
  EXPECT_EQ(bench::find("gemm").size(), 15u);
  EXPECT_EQ(bench::find("moons").size(), 1u);
  EXPECT_EQ(bench::find("gemm-1024").size(), 1u);
  EXPECT_THROW(bench::find("mo"), ConfigError);
  EXPECT_THROW(bench::find(""), ConfigError);
  const bench::Workload product = bench::find("gemm-3x4x5-tn")[0].make({});
  EXPECT_EQ(product.flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(Context(interpreted()).shape(product.result), parse_shape("3,5"));
  for (const char* name : {"gemm-3x4", "gemm-0x4x5", "gemm-3x4x99999", "gemm-3x4x5-tt"})
    EXPECT_THROW(bench::find(name), ConfigError) << name;
}

TEST(Bench, TimingHasMedianAndQuartiles) {
  const bench::Timing t = bench::timing({5, 1, 3, 2, 4});
  EXPECT_EQ(t.median, 3);
  EXPECT_EQ(t.low, 2);
  EXPECT_EQ(t.high, 4);
  EXPECT_EQ(bench::timing({7, 8}).median, 7.5);
  EXPECT_EQ(bench::timing({7}).high, 7);
}

TEST(Bench, RecordHasAllThatAnotherProgramNeeds) {
  const data::Tensors record = bench::record("moons", bench::find("moons")[0].make({}), interpreted(), 3);
  EXPECT_EQ(record.metadata.at("optimizer"), R"({"name": "sgd", "lr": 0.1, "weight_decay": 0.0001})");
  EXPECT_EQ(record.list.at("data.x").sizes, (std::vector<int64_t>{64, 10, 2}));
  EXPECT_EQ(record.list.at("data.y").sizes, (std::vector<int64_t>{64, 10, 1}));
  EXPECT_EQ(record.list.at("param.mlp.0.weight").sizes, (std::vector<int64_t>{16, 2}));
  EXPECT_EQ(record.list.at("losses").sizes, (std::vector<int64_t>{3}));
  EXPECT_EQ(record.list.size(), 2u + 6u + 1u);
  const data::Tensors product =
      bench::record("gemm", bench::find("gemm-1024-nt")[0].make({.small = true}), compiled(), 3);
  EXPECT_EQ(product.list.at("param.b").sizes, (std::vector<int64_t>{24, 40}));
  EXPECT_EQ(product.list.at("result").sizes, (std::vector<int64_t>{33, 24}));
}

}  // namespace
