// What `caravan bench` measures: the right models, computed right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/bench/measure.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"
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

// How many multiplications of sums of products a kernel makes one by one: not in vectors, and not in a loop that the C
// compiler turns into vectors.
int64_t scalar_products(const loop::Kernel& kernel) {
  int64_t out = 0;
  std::set<loop::Register> products;
  auto add = [&](const auto& combine, const loop::Path& path) {
    const bool product = combine.factor >= 0 || products.count(combine.value);
    if (!product || kernel.registers[size_t(combine.value)].width > 1) return;
    const std::vector<const loop::For*> loops = loop::loops_of(path);
    int64_t times = 1;
    for (const loop::For* f : loops) times *= f->extent;
    if (!loops.empty() && loops.back()->kind != loop::LoopKind::vector && loops.back()->unroll != loop::Unroll::lanes)
      out += times;
  };
  loop::for_each_with_path(statements(kernel), [&](const loop::Statement& s, const loop::Path& path) {
    if (auto* define = std::get_if<loop::Define>(&s))
      if (auto* apply = std::get_if<loop::Apply>(&define->value); apply && apply->op == Op::mul)
        products.insert(define->to);
    if (auto* combine = std::get_if<loop::Combine>(&s)) add(*combine, path);
    if (auto* combine = std::get_if<loop::StoreCombine>(&s)) add(*combine, path);
  });
  return out;
}

// Multiplications. The C compiler unrolls the loops of smaller products, such as those of moons.
constexpr int64_t kSmallProduct = 4096;

// Products of matrices are where the time goes. None that matters is computed by a plain loop: large ones are computed
// in tiles, those of a single row in tiles or vectors.
TEST(Bench, ProductsThatMatterAreComputedInTiles) {
  for (const bench::Entry& entry : bench::training_steps()) {
    const std::shared_ptr<const plan::Plan> plan = Context({.device = "cpu"}).plan(entry.make({}).program, host(1));
    int64_t all = 0;
    for (const loop::Kernel& kernel : plan->scheduled.kernels) all += plan::cost(plan->scheduled, kernel).flops;
    for (const loop::Kernel& kernel : plan->scheduled.kernels) {
      const int64_t one_by_one = scalar_products(kernel);
      EXPECT_TRUE(one_by_one < kSmallProduct || 2 * one_by_one * 100 <= all)
          << entry.name << ": " << kernel.name << ", " << loops_text(kernel);
      const bool fused =
          loop::find_of<loop::Combine>(statements(kernel), [](const auto& c) { return c.factor >= 0; }) ||
          loop::find_of<loop::StoreCombine>(statements(kernel), [](const auto& c) { return c.factor >= 0; });
      if (!fused || plan::cost(plan->scheduled, kernel).flops * 100 <= all) continue;
      EXPECT_FALSE(kernel.contractions.empty()) << entry.name << ": " << kernel.name << ", " << loops_text(kernel);
    }
  }
}

// Millions of operations at the sizes that are measured, counted by hand.
TEST(Bench, OperationsAreCounted) {
  const std::pair<const char*, double> cases[] = {
      {"camelax-mnist", 0.4396},   {"camelax-mul", 0.0614},   {"moons", 0.0176},          {"names-mlp-b32", 2.227},
      {"names-mlp-b1024", 71.27},  {"names-mlp-bn", 2.227},   {"names-wavenet", 24.28},   {"names-transformer", 634.6},
      {"mnist-mlp", 410.8},        {"lenet", 985.2},          {"gpt-char-b4", 72'631},    {"gemm-1024-tn", 2147.5},
      {"gpt-char-b64", 1'162'096}, {"gpt2-124m", 28'004'000}, {"gemm-128x784x100", 20.07}};
  for (const auto& [name, millions] : cases)
    EXPECT_NEAR(bench::find(name)[0].make({}).flops / 1e6, millions, 0.002 * millions) << name;
}

TEST(Bench, NamesFindFamilies) {
  EXPECT_EQ(bench::find("names-mlp").size(), 3u);
  EXPECT_EQ(bench::find("gemm").size(), 15u);
  EXPECT_EQ(bench::find("moons").size(), 1u);
  EXPECT_EQ(bench::find_all({"gpt-char", "moons"}, true).size(), 3u);
  EXPECT_EQ(bench::find_all({"gpt-char", "moons"}, false).size(), 2u);
  EXPECT_EQ(bench::find_all({"gpt-char-b64"}, false).size(), 1u) << "it is named, so the command says why not";
  EXPECT_EQ(bench::find_all({"gpt2"}, false).size(), 1u);
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
