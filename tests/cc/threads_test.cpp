// Threads and units: the same bits whatever runs them, kernels compiled once, many texts compiled at once.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <regex>

#include "caravan/backend/cc/pool.h"
#include "caravan/backend/cc/thread_trial.h"
#include "caravan/codegen/balance.h"
#include "caravan/codegen/c.h"
#include "caravan/codegen/step.h"
#include "caravan/plan/plan.h"
#include "cc/own_cache.h"
#include "programs.h"

namespace caravan {
namespace {

Array numbers(const std::string& shape, double scale = 0.01) {
  Array like(parse_shape(shape));
  std::vector<double> values;
  for (int64_t i = 0; i < like.size(); ++i) values.push_back(scale * double((i * 7919) % 101 - 50));
  return Array(like.shape(), values, DType::f32);
}
Context on(int threads) {
  ContextOptions options;
  options.seed = 1, options.device = "cpu", options.cache = own_cache(), options.threads = threads;
  return Context(options);
}

// Enough work for parallel loops forward and backward: two layers, a softmax, Adam.
struct Model {
  Tensor x = tensor(numbers("192|128")), t = tensor(numbers("192|64"));
  Tensor w1 = param("w1", {.output = {160}}), b1 = param("b1"), w2 = param("w2", {.output = {64}});
  Tensor h = tanh(w1(x) + b1);
  Tensor logits = w2(h);
  Tensor e = exp(logits - einmax("b|i => b|0", logits));
  Tensor p = e / einsum("b|i => b|0", e);
  Tensor loss = mean(square(p - t));
  Program step = train_step(loss, adam({.lr = 0.01}));
};

TEST(Threads, ChunksRunOnceEachWhateverTheThreads) {
  static std::vector<std::atomic<int>> counts(1000);
  for (int threads : {1, 2, 3, 7}) {
    cc::Pool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int round = 0; round < 300; ++round) {
      const int64_t chunks = 1 + (round * 37) % 1000;
      for (auto& c : counts) c = 0;
      pool.run([](const codegen::Step*, int64_t chunk) { ++counts[size_t(chunk)]; }, nullptr, chunks);
      for (int64_t c = 0; c < 1000; ++c)
        ASSERT_EQ(counts[size_t(c)], c < chunks ? 1 : 0) << threads << " threads, round " << round;
      if (round % 100 == 50) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until the workers sleep
    }
  }
}

TEST(Threads, GiveTheSameBits) {
  std::vector<std::map<std::string, Array>> states;
  std::vector<double> losses;
  for (int threads : {1, 2, 3}) {
    Model m;
    Context ctx = on(threads);
    Routine step = ctx.compile(m.step);
    step.run_steps(6);
    losses.push_back(step.read(m.loss).item());
    states.emplace_back();
    for (const std::string& name : ctx.names()) states.back()[name] = ctx.read(name);
  }
  Model m;
  Context oracle({.seed = 1, .device = "interp"});
  oracle.compile(m.step).run_steps(6);
  for (const auto& [name, value] : states[0])
    for (int64_t i = 0; i < value.size(); ++i) ASSERT_NEAR(value.at(i), oracle.read(name).at(i), 1e-4) << name;

  const loop::Module module = plan::make_plan(to_ir(Model().step), host()).scheduled;
  EXPECT_GE(std::count_if(module.kernels.begin(), module.kernels.end(),
                          [](const loop::Kernel& k) { return loop::parallel_loop(k); }),
            3);
  for (size_t other : {1u, 2u}) {
    EXPECT_EQ(losses[0], losses[other]);
    for (const auto& [name, value] : states[0]) EXPECT_EQ(value.values(), states[other].at(name).values()) << name;
  }
}

// Blocks of a product are shared along all of its axes, not along the first alone.
TEST(Threads, ShareTheBlocksOfBatchesRowsAndColumns) {
  const Tensor product =
      einsum("b,i,k; b,k,j => b,i,j", param("a", numbers("3,203,64")), param("b", numbers("3,64,200")));
  const Program program = observe(product);
  const loop::Module module = plan::make_plan(to_ir(program), host()).scheduled;
  const loop::For* loop = loop::parallel_loop(module.kernels.back());
  ASSERT_TRUE(loop) << loops_text(module.kernels.back());
  EXPECT_GT(loop::parallel_iterations(*loop), loop->extent) << loops_text(module.kernels.back());
  const Array one = on(1).eval(product), three = on(3).eval(product),
              right = Context({.device = "interp"}).eval(product);
  for (int64_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one.at(i), three.at(i)) << i;
    ASSERT_NEAR(one.at(i), right.at(i), 1e-5) << i;
  }
}

// The blocks of a long sum are added up by themselves, and then in the order in which one loop would add them.
TEST(Threads, ShareTheBlocksOfLongSums) {
  const Tensor long_sum = einsum("b,h,c => c", tanh(param("a", numbers("64,200,24"))));
  const auto parts = [](const loop::Module& module) {
    return std::count_if(module.kernels.begin(), module.kernels.end(), [](const loop::Kernel& kernel) {
      return loop::parallel_loop(kernel) && kernel.name.starts_with("part of");
    });
  };
  EXPECT_EQ(parts(plan::make_plan(to_ir(observe(long_sum)), host()).scheduled), 1);
  const Array one = on(1).eval(long_sum), three = on(3).eval(long_sum),
              whole = Context({.device = "cpu", .cache = own_cache(), .passes_off = {"share_blocks"}}).eval(long_sum),
              right = Context({.device = "interp"}).eval(long_sum);
  for (int64_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one.at(i), three.at(i)) << i;
    EXPECT_EQ(one.at(i), whole.at(i)) << i;
    EXPECT_NEAR(one.at(i), right.at(i), 1e-3) << i;
  }
}

TEST(Threads, TwoCallersAndTooManyThreads) {  // neither hangs nor ends the process
  cc::Pool pool(3);
  static std::atomic<int> ran{0};
  auto call = [&] {
    for (int round = 0; round < 200; ++round) pool.run([](const codegen::Step*, int64_t) { ++ran; }, nullptr, 10);
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(ran, 4000);
}

size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return size_t(std::distance(begin(tasks), end(tasks)));
}
TEST(Threads, NoMoreThanTheProcessorsThatTheProcessMayUse) {  // as under `taskset -c 0`
  const size_t before = threads_of_this_process();
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  {
    Model model;
    Context ctx = on(0);
    Routine step = ctx.compile(model.step);
    step.run();
    EXPECT_EQ(threads_of_this_process(), before) << "the caller's thread alone";
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "this process may use one processor, so there is nothing to compare with";
  Model model;
  Context ctx = on(0);
  Routine step = ctx.compile(model.step);
  step.run();
  EXPECT_GT(threads_of_this_process(), before);
}

TEST(Threads, ManyContextsAtOnce) {  // each with threads of its own
  std::vector<std::thread> users;
  std::vector<double> losses(4);
  for (size_t u = 0; u < losses.size(); ++u)
    users.emplace_back([&, u] {
      Model m;
      Context ctx = on(2);
      Routine step = ctx.compile(m.step);
      for (int s = 0; s < 10; ++s) step.run();
      losses[u] = step.read(m.loss).item();
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(losses, std::vector<double>(losses.size(), losses[0]));
}

TEST(Threads, AChildOfForkComputesTheSameBitsAndEnds) {
  Model m;
  auto ctx = std::make_unique<Context>(on(4));
  auto step = std::make_unique<Routine>(ctx->compile(m.step));
  step->run();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the threads of the pool are asleep
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::fflush(nullptr);  // or the child prints it again
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // seconds, for one that hangs
    step->run();
    double loss = step->read(m.loss).item();
    {
      Model again;  // a Context of the child's own
      Context other = on(4);
      Routine first = other.compile(again.step);
      first.run(), first.run();
      if (first.read(again.loss).item() != loss) loss = -1;
    }
    step.reset(), ctx.reset();
    if (write(ends[1], &loss, sizeof loss) != sizeof loss) _exit(1);
    std::exit(0);  // with the destructors of everything
  }
  close(ends[1]);
  step->run();
  double of_child = 0;
  EXPECT_EQ(read(ends[0], &of_child, sizeof of_child), ssize_t(sizeof of_child));
  EXPECT_EQ(of_child, step->read(m.loss).item());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  close(ends[0]);
}

Tensor deep(int layers) {
  Tensor h = tensor(numbers("4|8"));
  for (int k = 0; k < layers; ++k)
    h = tanh(param("layer" + std::to_string(k) + ".w", {.output = {8}})(h) + param("layer" + std::to_string(k) + ".b"));
  return sum(square(h));
}
size_t functions_in(const std::vector<std::string>& units) {
  size_t out = 0;
  for (const std::string& unit : units) {
    const std::regex definition("\\n(static |__attribute__[()a-z\"]* )?void k[0-9]+_\\w+\\([^;{]*\\) \\{");
    out += size_t(std::distance(std::sregex_iterator(unit.begin(), unit.end(), definition), std::sregex_iterator()));
  }
  return out;
}

TEST(Units, EqualKernelsAreOneFunction) {
  auto module = [](int layers) {
    return plan::make_plan(to_ir(train_step(deep(layers), sgd({.lr = 0.1}))), host()).scheduled;
  };
  const loop::Module twelve = module(12), six = module(6);
  EXPECT_GE(twelve.kernels.size(), six.kernels.size() + 6);
  EXPECT_EQ(functions_in({codegen::to_c(twelve)}), functions_in({codegen::to_c(six)})) << codegen::to_c(twelve);
  EXPECT_EQ(functions_in(codegen::to_units(twelve, codegen::Entries::runs, 10).texts),
            functions_in({codegen::to_c(twelve)}));
}

// The sum of all that was added before is not computed again in every layer, which would make them all different.
TEST(Units, LayersWithResidualsShareTheirKernels) {
  auto functions = [](int layers) {
    nn::Gpt model({.vocab = 11, .ctx = 8, .dim = 16, .heads = 2, .layers = layers});
    const Tensor ids = tensor(Array(parse_shape("4,8|"), DType::i32));
    const Program step = train_step(nn::cross_entropy(model(ids), ids), adam({.lr = 0.1}));
    return functions_in({codegen::to_c(plan::make_plan(to_ir(step), host()).scheduled)});
  };
  EXPECT_EQ(functions(6), functions(4));
}

// Texts are compiled on several processors at once, so they should take about the same time.
TEST(Units, FunctionsAreGroupedByHowLongTheyCompile) {
  using Groups = std::vector<std::vector<size_t>>;
  struct {
    std::vector<double> milliseconds;
    Groups expected;
  } const rows[] = {
      {{10}, {{0}}},                                    // a program without kernels
      {{10, 20, 30, 40}, {{0, 1, 2, 3}}},               // quick together
      {{10, 50, 20, 70}, {{0, 3}, {1, 2}}},             // two texts of about the same length
      {{5, 120, 20, 30}, {{1}, {0, 2, 3}}},             // 120 alone takes longer than all others
      {{90, 90, 90, 90, 10}, {{0, 4}, {1}, {2}, {3}}},  // four texts, though three would do
      {{1, 900}, {{1}, {0}}},                           // never more texts than functions
  };
  for (const auto& row : rows) EXPECT_EQ(codegen::balanced(row.milliseconds, 100), row.expected);
}

// An unrolled loop is as long as all its iterations.
TEST(Units, UnrolledLoopsTakeLongToCompile) {
  auto nest = [](loop::LoopKind kind) {
    loop::For rows{.variable = 0, .extent = 8, .kind = kind, .body = {loop::Reset{0, 0.0}}};
    loop::Kernel kernel;
    kernel.body = loop::Block{std::move(rows)};
    return codegen::compile_milliseconds(kernel);
  };
  EXPECT_GT(nest(loop::LoopKind::unrolled), 2 * nest(loop::LoopKind::serial));
}

TEST(Units, ALargeProgramIsCompiledInPartsAndSaysHowFarItIs) {
  auto program = [] {  // kernels of different sizes, so that none is equal to another
    Tensor total = number(0, DType::f32);
    for (int k = 0; k < 60; ++k)
      total = total + sum(exp(einsum("ij;jk=>ik", tensor(numbers(std::to_string(3 + k) + ",4")),
                                     param("w" + std::to_string(k), Array(parse_shape("4,5"))))));
    return total;
  };
  const TemporaryFolder folder;
  std::vector<std::pair<int, int>> told;
  ContextOptions options;
  options.device = "cpu", options.cache = folder.path, options.compiler_flags = {"-O1"};
  options.compiling = [&](int done, int total) { told.push_back({done, total}); };
  const Tensor loss = program();
  const Program step = train_step(loss, sgd({.lr = 0.01}));
  Context ctx(options), oracle({.device = "interp"});
  Routine routine = ctx.compile(step), expected = oracle.compile(step);
  ASSERT_GE(told.size(), 3u);
  for (size_t k = 0; k < told.size(); ++k) EXPECT_EQ(told[k], std::make_pair(int(k), int(told.size()) - 1));
  EXPECT_EQ(routine.report().sources.size(), told.size() - 1);
  for (const std::string& path : routine.report().sources) EXPECT_TRUE(std::ifstream(path).good()) << path;
  EXPECT_FALSE(routine.report().from_cache);
  routine.run(), expected.run();
  EXPECT_NEAR(routine.read(loss).item(), expected.read(loss).item(), 1e-3);
  for (const std::string& name : ctx.names())
    for (int64_t i = 0; i < ctx.read(name).size(); ++i)
      ASSERT_NEAR(ctx.read(name).at(i), oracle.read(name).at(i), 1e-4) << name;

  told.clear();
  EXPECT_TRUE(Context(options).compile(step).report().from_cache);
  EXPECT_TRUE(told.empty());
}

}  // namespace
// Runs a trial in which a step takes so many nanoseconds on all threads, or on one; returns how many runs it took.
int try_threads(cc::ThreadTrial& trial, int64_t shared, int64_t alone, int64_t steps) {
  int runs = 0;
  for (; !trial.is_over(); ++runs) {
    const int64_t disturbed = runs % 3 == 0 ? 40 : 1;  // by another program
    trial.note(steps, (trial.shares() ? shared : alone) * steps * disturbed);
  }
  return runs;
}

TEST(ThreadTrial, KeepsWhatWasFaster) {
  for (const int64_t steps : {1, 100}) {
    cc::ThreadTrial near, far, equal;
    EXPECT_EQ(try_threads(near, 700, 1000, steps), 32);
    EXPECT_TRUE(near.shares());
    EXPECT_EQ(try_threads(far, 1200, 1000, steps), 32);
    EXPECT_FALSE(far.shares());
    try_threads(equal, 1000, 1000, steps);
    EXPECT_TRUE(equal.shares());
  }
}

TEST(ThreadTrial, ALongStepIsNotTriedOnOneThread) {
  cc::ThreadTrial trial;
  EXPECT_EQ(try_threads(trial, 3'000'000, 1, 1), 4);
  EXPECT_TRUE(trial.shares());

  cc::ThreadTrial disturbed;  // some of its runs take 8 ms
  EXPECT_EQ(try_threads(disturbed, 200'000, 100'000, 1), 32);
  EXPECT_FALSE(disturbed.shares());
}

}  // namespace caravan
