// Attention is one kernel forward and one backward (schedule/cpu_attention.h, group_kernels.h), whose scores are not in
// the arena, with the bits of the kernels that it is made of.
#include <gtest/gtest.h>

#include <cmath>

#include "caravan/plan/plan.h"
#include "compiled_device.h"
#include "forwarding_device.h"
#include "programs.h"

namespace caravan {
namespace {

struct Sizes {
  int64_t batch = 2, tokens = 32, heads = 3, depth = 16;
  bool causal = true;
  std::optional<DType> precision{};
};

Array numbers(const Sizes& n, int seed) {
  Array out(parse_shape(std::to_string(n.batch) + "," + std::to_string(n.tokens) + "|" + std::to_string(n.heads) + "," +
                        std::to_string(n.depth)),
            DType::f32);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, 0.02 * double((i * 7919 + seed) % 101 - 50));
  return out;
}
using Change = std::function<void(Array& q, Array& k, Array& v)>;
Tensor attention(const Sizes& n, const Change& change = {}) {
  Array given[] = {numbers(n, 1), numbers(n, 2), numbers(n, 3)};
  if (change) change(given[0], given[1], given[2]);
  const Tensor q = param("q", given[0]), k = param("k", given[1]), v = param("v", given[2]);
  const nn::Phase phase = nn::training({.precision = n.precision});
  return cast(nn::attend(q, k, v, {.causal = n.causal}, phase), DType::f32).named("y");
}
Program trained(const Sizes& n, const Tensor& y) {
  return train_step(mean(square(y - tensor(numbers(n, 4)))), sgd({.lr = 10}));
}
Program trained(const Sizes& n) { return trained(n, attention(n)); }

std::map<std::string, Array> states(const Program& program, ContextOptions options) {
  static const TemporaryFolder folder;
  options.cache = folder.path;
  Context ctx(options);
  ctx.compile(program).run();
  std::map<std::string, Array> out;
  for (const std::string& name : ctx.names()) out[name] = ctx.read(name);
  return out;
}

// How many placements in the arena are as large as all scores.
int64_t placed_scores(const plan::Plan& plan, const Sizes& n) {
  return std::count_if(plan.memory.placements.begin(), plan.memory.placements.end(), [&](const plan::Placement& p) {
    return p.bytes == 4 * n.batch * n.heads * n.tokens * n.tokens;
  });
}
int64_t groups(const plan::Plan& plan) {
  return std::count_if(plan.scheduled.kernels.begin(), plan.scheduled.kernels.end(),
                       [](const loop::Kernel& kernel) { return kernel.contractions.size() > 1; });
}

TEST(Attention, IsOneKernelWhoseScoresAreNotInTheArena) {
  const Sizes n;
  const plan::Options grouped{.off = {"cpu_attention"}};
  const plan::Plan forward = plan::make_plan(to_ir(observe(attention(n))), host(1), grouped);
  EXPECT_EQ(groups(forward), 1);
  EXPECT_EQ(placed_scores(forward, n), 0);
  const plan::Plan step = plan::make_plan(to_ir(trained(n)), host(1), grouped);
  EXPECT_EQ(groups(step), 2);
  EXPECT_EQ(placed_scores(step, n), 2) << "the weights and their exponentials, which the gradient reads";
}

TEST(Attention, HasTheSameBitsInAnyKernels) {
  for (const Sizes& n : {Sizes{}, Sizes{.tokens = 37, .heads = 1}, Sizes{.batch = 1, .tokens = 48, .depth = 9},
                         Sizes{.tokens = 33, .causal = false}}) {
    const auto expected = states(trained(n), {.device = "interp"}),
               grouped = states(trained(n), {.device = "cpu", .threads = 1});
    for (const auto& [name, value] : expected)
      for (int64_t i = 0; i < value.size(); ++i) ASSERT_NEAR(grouped.at(name).at(i), value.at(i), 1e-5) << name << i;
    for (const ContextOptions& options :
         {ContextOptions{.device = "cpu", .threads = 3},
          ContextOptions{.device = "cpu", .compiler_flags = {"-O0"}, .passes_off = {"cpu_attention"}},
          ContextOptions{.device = "cpu", .compiler_flags = {"-O0"}, .passes_off = {"group_kernels"}},
          ContextOptions{.device = "cpu", .compiler_flags = {"-O0"}, .passes_off = {"local_buffers"}},
          ContextOptions{
              .device = "cpu", .compiler_flags = {"-O0"}, .passes_off = {"fuse", "tile_contractions", "vectorize"}}}) {
      const auto other = states(trained(n), options);
      for (const auto& [name, value] : grouped)
        for (int64_t i = 0; i < value.size(); ++i) ASSERT_EQ(other.at(name).at(i), value.at(i)) << name << i;
    }
  }
}

bool attends(const Program& program) {
  const plan::Plan plan = plan::make_plan(to_ir(program), host(2), {});
  return std::any_of(plan.scheduled.kernels.begin(), plan.scheduled.kernels.end(), loop::attention);
}

// Sums over more than 256 positions are cut into blocks, some of them into slices, and those over the scores of more
// than 2048 positions as well.
TEST(Attention, OfManyPositionsHasTheSameBits) {
  struct Row {
    Sizes sizes;
    std::vector<std::string> flags{};
  };
  const Row rows[] = {
      {{.tokens = 300, .heads = 2}},
      {{.batch = 1, .tokens = 301, .heads = 2, .causal = false}},
      {{.batch = 1, .tokens = 512, .heads = 3}},
      {{.batch = 1, .tokens = 512, .heads = 2, .causal = false}, {"-mno-avx512f"}},
      {{.batch = 1, .tokens = 1000, .heads = 2}, {"-mno-avx512f"}},
      {{.batch = 1, .tokens = 1024, .heads = 1}},
      {{.batch = 1, .tokens = 1024, .heads = 3, .causal = false}},
      {{.batch = 1, .tokens = 2100, .heads = 1}},
      {{.batch = 2, .tokens = 35, .heads = 4, .causal = false}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.sizes.tokens) + " positions" + (row.sizes.causal ? ", causal" : ""));
    const Tensor y = attention(row.sizes);
    const Program program = trained(row.sizes, y) & assign(state("result", numbers(row.sizes, 5)), y);
    EXPECT_TRUE(attends(program));
    const auto plain =
        states(program, {.device = "cpu", .threads = 2, .compiler_flags = row.flags, .passes_off = {"cpu_attention"}});
    for (const int threads : {1, 3}) {
      const auto made = states(program, {.device = "cpu", .threads = threads, .compiler_flags = row.flags});
      for (const auto& [name, value] : plain)
        for (int64_t i = 0; i < value.size(); ++i) ASSERT_EQ(made.at(name).at(i), value.at(i)) << name << i;
    }
  }
}

// What a mask removes is left out only where no bit shows it.
TEST(Attention, HasTheSameBitsOfUnusualNumbers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  int64_t late = 0, middle = 0;  // the first elements of a late token, and of one in the middle
  const struct {
    const char* what;
    Change change;
  } rows[] = {
      {"a value that few see is infinite", [&](Array&, Array&, Array& v) { v.set(late + 3, kInfinity); }},
      {"a value is NaN", [&](Array&, Array&, Array& v) { v.set(middle, NAN); }},
      {"a query is infinite", [&](Array& q, Array&, Array&) { q.set(middle + 1, -kInfinity); }},
      {"a key is NaN", [&](Array&, Array& k, Array&) { k.set(late, NAN); }},
      {"scores are as large as those that are not seen",
       [&](Array& q, Array& k, Array&) {
         for (int64_t i = 0; i < q.size(); ++i) q.set(i, 1e16), k.set(i, -1e16);
       }},
      {"values are so small that products are 0 or -0",
       [&](Array&, Array&, Array& v) {
         for (int64_t i = 0; i < v.size(); ++i) v.set(i, i % 3 == 0 ? -1e-44 : i % 3 == 1 ? -0.0 : 1e-44);
       }},
      {"keys are 0 and -0",
       [&](Array&, Array& k, Array&) {
         for (int64_t i = 0; i < k.size(); ++i) k.set(i, i % 2 == 0 ? 0.0 : -0.0);
       }},
  };
  for (const Sizes& n : {Sizes{.batch = 1, .tokens = 40, .heads = 2}, Sizes{.batch = 1, .tokens = 300, .heads = 2}}) {
    late = (n.tokens - 4) * n.heads * n.depth, middle = n.tokens / 2 * n.heads * n.depth;
    for (const auto& row : rows) {
      const Tensor y = attention(n, row.change);
      const Program program = trained(n, y) & assign(state("result", numbers(n, 5)), y);
      const auto made = states(program, {.device = "cpu", .threads = 1}),
                 plain = states(program, {.device = "cpu", .compiler_flags = {"-O1"}, .passes_off = {"cpu_attention"}});
      for (const auto& [name, value] : plain)
        for (int64_t i = 0; i < value.size(); ++i) {
          const double a = made.at(name).at(i), b = value.at(i);
          ASSERT_TRUE((std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)))
              << row.what << ", " << n.tokens << " positions: " << name << i << " is " << a << ", not " << b;
        }
    }
  }
}

// A GPU on which attention stores no scores, whatever the precision.
class AttendingDevice : public ForwardingDevice {
 public:
  explicit AttendingDevice(bool tf32)
      : ForwardingDevice(cuda::make_device({.seed = 7, .cache = cache().path, .tf32 = tf32})) {}
  std::optional<Target> target() const override {
    Target out = *device_->target();
    out.gpu.stored_scores = 0;
    return out;
  }

 private:
  static const TemporaryFolder& cache() {
    static const TemporaryFolder folder;
    return folder;
  }
};

// On a GPU attention is a function that stores no scores (schedule/gpu_attention.h).
TEST(Attention, OfAGpuIsThatOfTheInterpreter) {
  if (!on_gpu()) GTEST_SKIP() << "CARAVAN_TEST_DEVICE is not cuda";
  struct Row {
    Sizes sizes;
    bool tf32 = false;
    double tolerance = 1e-5;
  };
  const Row rows[] = {
      {{}},
      {{.tokens = 37, .heads = 1}},
      {{.batch = 1, .tokens = 130, .heads = 1, .depth = 64}},
      {{.batch = 1, .tokens = 70, .heads = 1, .depth = 128}},
      {{.batch = 1, .tokens = 100, .heads = 2, .depth = 24, .causal = false}},
      {{.batch = 1, .tokens = 130, .heads = 2, .depth = 32}, true, 2e-3},
      {{.batch = 1, .tokens = 70, .heads = 1, .depth = 64, .causal = false}, true, 2e-3},
      {{.batch = 1, .tokens = 130, .heads = 2, .depth = 64, .precision = DType::bf16}, false, 2e-2},
      {{.batch = 1, .tokens = 200, .heads = 2, .depth = 64, .causal = false, .precision = DType::bf16}, false, 2e-2},
      {{.batch = 1, .tokens = 90, .heads = 1, .depth = 64, .precision = DType::f16}, false, 4e-3},
      {{.tokens = 65, .heads = 1, .depth = 40, .causal = false, .precision = DType::bf16}, false, 2e-2},
      {{.batch = 1, .tokens = 90, .heads = 1, .depth = 96, .precision = DType::f16}, false, 4e-3},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::to_string(row.sizes.tokens) + " tokens, depth " + std::to_string(row.sizes.depth));
    AttendingDevice device(row.tf32);
    const auto expected = states(trained(row.sizes), {.device = "interp"}),
               got = run_on(device, task_of(trained(row.sizes))).states;
    const auto start = states(observe(attention(row.sizes)), {.device = "interp"});
    for (const auto& [name, value] : expected) {
      double most = 0;  // the largest change of the parameter
      for (int64_t i = 0; i < value.size(); ++i) most = std::max(most, std::abs(value.at(i) - start.at(name).at(i)));
      EXPECT_GT(most, 0) << name;
      for (int64_t i = 0; i < value.size(); ++i)
        ASSERT_NEAR(got.at(name).at(i), value.at(i), row.tolerance * most + 1e-6) << name << i;
    }
  }
}

}  // namespace
}  // namespace caravan
