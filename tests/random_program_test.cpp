// Random programs: what is inlined, fused, stored in place or observed must not change a bit, and the interpreter must
// agree, also where writes are not solved. Programs are joined, so that one compilation covers many; a failure prints
// the seed of its program.
#include "random_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/interp/device.h"
#include "compiled_device.h"
#include "placed.h"
#include "programs.h"

namespace caravan {
namespace {

constexpr int kTogether = kSizesOfPrograms;  // in one compilation: a program of each kind of size

// Seeds 1 to 48, two groups in f64 and one in f32; more, and without each pass in turn for all of them, with
// CARAVAN_TEST_PROGRAMS=2000, as `./dev accept programs` does. By another compiler than `cc` with
// CARAVAN_TEST_CC=clang-19. The shards of GoogleTest share the work of a long run.
const char* const kMore = std::getenv("CARAVAN_TEST_PROGRAMS");
const char* const kCompiler = std::getenv("CARAVAN_TEST_CC");
const int kPrograms = kMore ? std::atoi(kMore) : 3 * kTogether;

// Against the interpreter, of max(1, the largest element of the tensor): thirty steps and two runs amplify a rounding.
constexpr double kF64Tolerance = 1e-10, kF32Tolerance = 1e-3;

// What is compiled goes with the test: a long run would fill a disk.
class WithCpu {
 protected:
  Outcome run_compiled(const std::vector<std::string>& passes_off, const char* optimisation, const Task& task, int runs,
                       int64_t memory_limit = 0) const {
    cc::DeviceOptions options;
    options.compiler.cache = cache_.path;
    if (kCompiler) options.compiler.compiler = kCompiler;
    options.compiler.flags.push_back(optimisation);  // the bits must not depend on it either
    return run_on(*compiled_device(options), task, runs, {passes_off, memory_limit});
  }
  // With seven eighths of the memory that it needs, if that is possible, so that values are computed again.
  Outcome run_with_less_memory(const Task& task, int runs) const {
    const int64_t needed = plan::make_plan(task.program, host()).memory.bytes;
    try {
      return run_compiled({}, "-O0", task, runs, needed * 7 / 8);
    } catch (const StateError&) {
      return run_compiled({}, "-O0", task, runs);
    }
  }

  const std::string& cache() const { return cache_.path; }

 private:
  const TemporaryFolder cache_;
};

struct Group {
  Task task;
  std::vector<uint32_t> seeds;  // by observed value
  std::map<std::string, uint32_t> seed_of_state;
  bool smooth = false;
};
Group group(uint32_t first, uint32_t programs = kTogether) {
  Group out;
  out.smooth = first / kTogether % 2 == 1;
  std::vector<Task> tasks;
  for (uint32_t seed = first; seed < first + programs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Task task = task_of(random_program(seed, out.smooth));
    out.seeds.insert(out.seeds.end(), task.program.observed.size(), seed);
    for (const auto& a : task.program.assignments)
      out.seed_of_state["t" + std::to_string(tasks.size()) + "." + task.program.buffers[size_t(a.state)].name] = seed;
    tasks.push_back(out.smooth ? in_f32(std::move(task)) : std::move(task));
  }
  out.task = joined(tasks);
  return out;
}

bool same_bits(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), size_t(a.size() * bytes(a.dtype()))) == 0;
}
void expect_near(const Group& g, const Outcome& actual, const Outcome& expected, const std::string& what);
// On a GPU the lanes that share a sum, and so its bits, depend on the loops around it.
void expect_same(const Group& g, const Outcome& actual, const Outcome& expected, const std::string& what) {
  if (on_gpu()) return expect_near(g, actual, expected, ", " + what);
  for (size_t k = 0; k < g.seeds.size(); ++k)
    EXPECT_TRUE(same_bits(actual.observed[k], expected.observed[k]))
        << "seed " << g.seeds[k] << ", " << what << ", observed " << k << " ("
        << g.task.program.buffers[size_t(g.task.program.observed[k])].name << "):\n"
        << actual.observed[k] << "\n"
        << expected.observed[k];
  for (const auto& [name, seed] : g.seed_of_state)
    EXPECT_TRUE(same_bits(actual.states.at(name), expected.states.at(name)))
        << "seed " << seed << ", " << what << ", state " << name << ":\n"
        << actual.states.at(name) << "\n"
        << expected.states.at(name);
}
void expect_near(const Array& actual, const Array& expected, double tolerance, const std::string& what) {
  double largest = 1;
  for (double v : expected.values()) largest = std::max(largest, std::abs(v));
  for (int64_t i = 0; i < expected.size(); ++i)
    ASSERT_LE(std::abs(actual.at(i) - expected.at(i)), tolerance * largest)
        << what << ", element " << i << ": " << actual.at(i) << ", the interpreter has " << expected.at(i);
}

void expect_near(const Group& g, const Outcome& actual, const Outcome& expected, const std::string& what) {
  const double tolerance = g.smooth ? kF32Tolerance : kF64Tolerance;
  for (size_t k = 0; k < g.seeds.size(); ++k)
    expect_near(actual.observed[k], expected.observed[k], tolerance,
                "seed " + std::to_string(g.seeds[k]) + ", observed " + std::to_string(k) + what);
  for (const auto& [name, seed] : g.seed_of_state)
    expect_near(actual.states.at(name), expected.states.at(name), tolerance,
                "seed " + std::to_string(seed) + ", state " + name + what);
}

// All but solve_writes, which sums in another order.
std::vector<std::string> passes_that_keep_bits() {
  std::vector<std::string> out = plan::pass_names();
  std::erase(out, "solve_writes");
  return out;
}

// Everything that is computed, observed after what the program observes itself.
Task all_observed(Task task) {
  for (size_t b = 0; b < task.program.buffers.size(); ++b)
    if (std::holds_alternative<ir::Computed>(task.program.buffers[b].kind))
      task.program.observed.push_back(ir::BufferId(b));
  return task;
}

constexpr int kRuns = 2;

class RandomPrograms : public testing::TestWithParam<int>, protected WithCpu {};

TEST_P(RandomPrograms, AreTheSameFusedUnfusedAndObserved) {
  const Group g = group(uint32_t(GetParam()));
  const Outcome fused = run_compiled({}, "-O3", g.task, kRuns);
  const Outcome expected = run_on(*interp::make_device(0), g.task, kRuns);
  expect_near(g, fused, expected, "");

  expect_same(g, run_compiled(passes_that_keep_bits(), "-O0", g.task, kRuns), fused, "without passes");
  expect_near(g, run_compiled(plan::pass_names(), "-O0", g.task, kRuns), expected, ", without any pass");
  expect_same(g, run_with_less_memory(g.task, kRuns), fused, "with less memory");
  expect_same(g, run_compiled({}, "-O0", all_observed(g.task), kRuns), fused, "with everything observed");
}
// On several devices, with axes placed at random.
TEST_P(RandomPrograms, AreTheSameOnSeveralDevices) {
  if (on_gpu()) GTEST_SKIP() << "the devices are processors here";
  const Group g = group(uint32_t(GetParam()));
  const Outcome expected = run_on(*interp::make_device(0), g.task, kRuns);
  const Mesh meshes[] = {{{"a", 2, 4}}, {{"a", 3}}, {{"a", 2}, {"b", 2}}, {{"a", 4}}, {{"a", 2, 6}}};
  const Mesh& mesh = meshes[size_t(GetParam()) / kTogether % std::size(meshes)];
  const Task placed = placed_at_random(g.task, mesh, uint32_t(GetParam()));
  expect_near(g, run_on_mesh(placed, mesh, kRuns), expected, ", interpreted on " + to_string(mesh));
  cc::DeviceOptions options;
  options.compiler.cache = cache();
  options.compiler.flags.push_back("-O0");
  expect_near(g, run_on_mesh(placed, mesh, kRuns, &options), expected, ", on " + to_string(mesh));
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range(1, 1 + kPrograms, kTogether));

// Many small programs, each on a mesh of its own: windows, gathers, reductions of every kind, divided states.
TEST(RandomPlacements, ChangeNoValue) {
  const Mesh meshes[] = {{{"a", 2}},           {{"a", 3}},
                         {{"a", 2}, {"b", 2}}, {{"a", 3}, {"b", 2}},
                         {{"a", 2, 4}},        {{"a", 2}, {"b", 3}, {"c", 2}},
                         {{"a", 1, 3}},        {{"a", 1, 2}, {"b", 2}},
                         {{"a", 2, 6}}};
  std::map<std::string, int> collectives;
  const uint32_t programs = kMore ? uint32_t(kPrograms) : 240;
  for (uint32_t seed = 1; seed <= programs; ++seed) {
    if (seed % 4 == 0 || seed % kTogether == 7) continue;  // not small
    Mesh mesh = meshes[seed % std::size(meshes)];
    if (seed % 3 != 0) mesh.optimizer_states = mesh.axes.back().name;
    const Task task = task_of(random_program(seed, false)), placed = placed_at_random(task, mesh, seed, 2 + seed % 5);
    const std::string what = "seed " + std::to_string(seed) + " on " + to_string(mesh);
    Outcome one, many;
    try {
      for (const auto& [kind, count] : collectives_of(placed, mesh)) collectives[kind] += count;
      one = run_on(*interp::make_device(0), task, kRuns), many = run_on_mesh(placed, mesh, kRuns);
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": " << error.what();
      continue;
    }
    for (size_t k = 0; k < one.observed.size(); ++k)
      expect_near(many.observed[k], one.observed[k], kF64Tolerance, what + ", observed " + std::to_string(k));
    for (const auto& [name, value] : one.states)
      expect_near(many.states.at(name), value, kF64Tolerance, what + ", state " + name);
  }
  for (const char* kind : {"all_gather", "all_reduce add", "all_reduce max", "all_reduce min", "all_reduce mul",
                           "reduce_scatter add", "reduce_scatter max"})
    EXPECT_GT(collectives[kind], 0) << kind;
}

// Seven programs in f64 and seven in f32: each group has a large one and one that is shared by threads. The bits of -O3
// are those of -O0: the tests above hold them together.
class RandomProgramsWithout : public testing::TestWithParam<int>, protected WithCpu {};

TEST_P(RandomProgramsWithout, EachPassInTurn) {
  const Group g = group(uint32_t(GetParam()), kMore ? kTogether : 7);
  const Outcome fused = run_compiled({}, "-O0", g.task, kRuns);
  for (const std::string& pass : passes_that_keep_bits())
    expect_same(g, run_compiled({pass}, "-O0", g.task, kRuns), fused, "without " + pass);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgramsWithout,
                         testing::Range(1, 1 + (kMore ? kPrograms : 2 * kTogether), kTogether));

// What random programs are too small for: packed weights, lanes that go inside, blocks of rows, sums split in all their
// loops.
class Products : public testing::Test, protected WithCpu {};

TEST_F(Products, AreTheSameWithoutEachPass) {
  std::mt19937 random(1);
  auto drawn = [&](const char* name, const char* shape) {
    Array values(parse_shape(shape));
    for (int64_t i = 0; i < values.size(); ++i)
      values.set(i, std::uniform_real_distribution<float>(-0.3f, 0.3f)(random));
    return param(name, values);
  };
  Tensor x = drawn("x", "6|12,12,1"), thin = drawn("thin", "3,3,1->8"), thick = drawn("thick", "2,3,32->9"),
         wide = drawn("wide", "8->32"), out = drawn("out", "1,2,9->9");
  Tensor h = relu(einsum("... | 4*i+k, 4*j+l, c; k, l, c -> d => ... | i, j, d", x, thin));
  h = tanh(einsum("... | i, j, c; c -> d => ... | i, j, d", h, wide));
  h = einsum("... | i+k, j+l, c; k, l, c -> d => ... | i, j, d", h, thick);
  const Tensor y = tanh(out(einsum("... | i, j, d => ... | j, i, d", h)));
  const Tensor rows =
      tanh(drawn("square", "32->32")(drawn("rows", "13|32")));  // 13 rows: some are left over after whole blocks
  const Task task = task_of(train_step(sum(square(y)) + sum(square(rows)), sgd({.lr = 0.01, .momentum = 0.9})));
  for (const plan::LogEntry& entry : plan::make_plan(task.program, host()).log)
    if (entry.pass == std::string("pack_operands")) {
      EXPECT_TRUE(entry.changed);
    }
  const Outcome all = run_compiled({}, "-O3", task, kRuns);
  auto expect_same_states = [&](const Outcome& outcome, const std::string& what) {
    for (const auto& [name, value] : all.states)
      EXPECT_TRUE(same_bits(outcome.states.at(name), value)) << name << " " << what;
  };
  for (const std::string& pass : passes_that_keep_bits())
    expect_same_states(run_compiled({pass}, "-O0", task, kRuns), "without " + pass);
  expect_same_states(run_compiled(passes_that_keep_bits(), "-O0", task, kRuns), "without any");
  const Outcome expected = run_on(*interp::make_device(0), task, kRuns);
  for (const auto& [name, value] : expected.states) expect_near(all.states.at(name), value, kF32Tolerance, name);
}

}  // namespace
}  // namespace caravan
