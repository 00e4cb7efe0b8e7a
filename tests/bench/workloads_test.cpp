// What `caravan bench` measures: the right models, computed right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "apps/bench/measure.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"
#include "caravan/parity/parity.h"
#include "caravan/plan/cost.h"
#include "caravan/plan/plan.h"
#include "caravan/plan/products.h"

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

std::shared_ptr<const plan::Plan> plan_with(const bench::Entry& entry, std::vector<std::string> passes_off,
                                            const Target& target) {
  return Context({.device = "interp", .passes_off = std::move(passes_off)}).plan(entry.make({}).program, target);
}
// Planned once, for all tests.
const plan::Plan& plan_of(const bench::Entry& entry) {
  static std::map<std::string, std::shared_ptr<const plan::Plan>> plans;
  std::shared_ptr<const plan::Plan>& plan = plans[entry.name];
  if (!plan) plan = plan_with(entry, {}, host(1));
  return *plan;
}

// Multiplications. The C compiler unrolls the loops of smaller products, such as those of moons.
constexpr int64_t kSmallProduct = 4096;

TEST(Bench, NoLargeProductIsComputedInScalars) {
  for (const bench::Entry& entry : bench::training_steps()) {
    const plan::Plan& plan = plan_of(entry);
    int64_t all = 0;
    for (const loop::Kernel& kernel : plan.scheduled.kernels) all += plan::cost(plan.scheduled, kernel).flops;
    for (const loop::Kernel& kernel : plan.scheduled.kernels) {
      const int64_t one_by_one = scalar_products(kernel);
      EXPECT_TRUE(one_by_one < kSmallProduct || 2 * one_by_one * 100 <= all)
          << entry.name << ": " << kernel.name << ", " << loops_text(kernel);
    }
  }
}

// The products that are rightly computed in loops, although they have more than 1 % of a workload's operations.
struct InLoops {
  const char *workload, *target;
};
constexpr InLoops kInLoops[] = {
    // The sums of a single row. Neighbours in memory are terms, so the lanes of a vector are partial sums. Each element
    // of the matrix is needed once, so tiles would have nothing to use again.
    {"camelax-mnist", "apply mlp.0.weight"},
    {"camelax-mnist", "apply mlp.1.weight"},
    {"camelax-mnist", "apply mlp.2.weight"},
    {"camelax-mul", "apply mlp.1.weight"},
    // Of 320 to 5120 operations, which all loops together compute in less time than tiles take to begin.
    {"moons", "apply mlp.0.weight"},
    {"moons", "apply mlp.1.weight"},
    {"moons", "apply mlp.2.weight"},
    {"moons", "d mlp.2.weight"},
    {"moons", "d relu.2"},
    {"moons", "d mlp.1.weight"},
    {"moons", "d mlp.0.weight"},
    // The filters of a convolution of one channel: 3 x 3 neighbours in memory, where tiles need 8. Its loops keep the
    // 9 x 32 sums in registers, as a tile would (docs/performance.md).
    {"lenet", "part of d conv1.weight"},
};

// The products with more than 1 % of the operations, by what they are added to, and how each is computed.
std::map<std::string, plan::Product> large_products(const plan::Plan& plan, double flops) {
  std::map<std::string, plan::Product> out;
  for (const plan::Product& p : plan::products(plan))
    if (100 * double(p.flops()) > flops) out.emplace(plan.optimized.buffers[size_t(p.target)].name, p);
  return out;
}
// Those of them that are computed in loops, and are not in the list.
std::set<std::string> left_to_loops(const std::string& workload, const plan::Plan& plan, double flops) {
  std::set<std::string> out;
  for (const auto& [target, product] : large_products(plan, flops)) {
    const bool listed = std::any_of(std::begin(kInLoops), std::end(kInLoops), [&](const InLoops& known) {
      return workload == known.workload && target.starts_with(known.target);
    });
    if (product.way == plan::Product::Way::loops && !listed) out.insert(target + ": " + to_string(product));
  }
  return out;
}

// Products of matrices are where the time goes. None that matters is left to loops.
TEST(Bench, ProductsThatMatterAreComputedInTiles) {
  for (const bench::Entry& entry : bench::training_steps()) {
    const plan::Plan& plan = plan_of(entry);
    const double flops = entry.make({}).flops;
    EXPECT_EQ(left_to_loops(entry.name, plan, flops), std::set<std::string>()) << entry.name;
    const auto large = large_products(plan, flops);
    for (const InLoops& known : kInLoops) {
      const bool needed = std::any_of(large.begin(), large.end(), [&](const auto& p) {
        return p.first.starts_with(known.target) && p.second.way == plan::Product::Way::loops;
      });
      EXPECT_TRUE(needed || entry.name != known.workload)
          << entry.name << ": " << known.target << " need not be listed";
    }
  }
}

// The test before this one does fail: if tiles are left out, or if no product is recognised as one.
TEST(Bench, ProductsThatAreLeftToLoopsAreNoticed) {
  for (const bench::Entry& entry : bench::training_steps()) {
    if (entry.for_gpu) continue;
    const double flops = entry.make({}).flops;
    size_t in_tiles = 0;
    for (const auto& [target, product] : large_products(plan_of(entry), flops))
      in_tiles += product.way == plan::Product::Way::tiles;
    EXPECT_EQ(in_tiles > 0, entry.name != "moons") << entry.name;
    EXPECT_EQ(left_to_loops(entry.name, *plan_with(entry, {"tile_contractions"}, host(1)), flops).size(), in_tiles)
        << entry.name;
    Target none = host(1);
    none.tuning.least_tiled = none.tuning.least_row_product = int64_t(1) << 50;
    EXPECT_GE(left_to_loops(entry.name, *plan_with(entry, {}, none), flops).size(), in_tiles) << entry.name;
  }
}

// The products that are found in the programs have the operations that were counted by hand (OperationsAreCounted), so
// none was overlooked.
TEST(Bench, AllProductsAreFound) {
  for (const bench::Entry& entry : bench::training_steps()) {
    double found = 0;
    for (const plan::Product& p : plan::products(plan_of(entry))) found += double(p.flops());
    // With a batch of one, gradients of weights have one term and are no sums: 2 * (784 + 100 + 100 + 10) * 100 of
    // camelax-mnist, and 2 * (2 + 100 + 1) * 100 of camelax-mul. A last layer of one output has a gradient of one term,
    // too, and camelax-mul's is a row by a column. Gradients of convolutions by their inputs are counted with the terms
    // that the border leaves out.
    const double no_sums = entry.name == "camelax-mnist" ? 198'800
                           : entry.name == "camelax-mul" ? 20'600 + 2 * 200
                           : entry.name == "moons"       ? 320
                                                         : 0;
    const double border = entry.name == "lenet" ? 2.0 * 64 * (13 * 13 - 11 * 11) * 9 * 32 * 64 : 0;
    const double all = entry.make({}).flops - no_sums + border;
    EXPECT_NEAR(found, all, 0.003 * all) << entry.name;
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
