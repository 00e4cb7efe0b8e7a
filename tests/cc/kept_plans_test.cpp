// Programs that were compiled before start without a plan, and run and show what was planned.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "caravan/backend/cc/untested_device.h"
#include "caravan/backend/cuda/step.h"
#include "caravan/backend/kernel_cache.h"
#include "caravan/backend/runnable.h"
#include "caravan/plan/profile.h"
#include "programs.h"

namespace caravan {
namespace {

namespace fs = std::filesystem;
using std::string;

// A step with a state, data and an index.
Program model(int64_t hidden) {
  const Index step("step", 4);
  Tensor x = tensor(Array(parse_shape("4,5|3"), std::vector<double>(60, 0.5)), "x");
  Tensor w = param("w", {.output = {hidden}});
  return train_step(sum(tanh(w(x[step]))), sgd({.lr = 0.1}));
}
string plan_text(const plan::Plan& plan) { return loop::to_string(plan.scheduled); }

TEST(KeptPlans, AProgramThatWasCompiledStartsWithoutAPlan) {
  const TemporaryFolder folder;
  const Task task = task_of(model(7), {});
  cc::DeviceOptions options;
  options.threads = 1, options.compiler.cache = folder.path;
  options.compiler.flags.push_back("-O0");  // compiles sooner
  auto prepared = [&](const ir::Program& program, const plan::Options& how = {}) {
    const auto device = cc::make_untested_device(options);
    return backend::prepare(*device, program, how);
  };
  auto is_planned = [&](const ir::Program& program, const plan::Options& how = {}) {
    return prepared(program, how).plan->made;
  };
  EXPECT_TRUE(is_planned(task.program));
  EXPECT_FALSE(is_planned(task.program));
  EXPECT_TRUE(is_planned(task.program, {.off = {"fuse"}})) << "other passes";
  EXPECT_TRUE(is_planned(task.program, {.memory_limit = 1'000'000})) << "another limit";
  EXPECT_TRUE(is_planned(task_of(model(8), {}).program)) << "other sizes";
  ir::Program moved = task.program;
  for (ir::Accumulation& a : moved.accumulations) a.source = {"elsewhere.cpp", 3}, a.label = "another text";
  EXPECT_FALSE(is_planned(moved)) << "lines are no part of a plan";
  options.threads = 2;
  EXPECT_TRUE(is_planned(task.program)) << "another target";
  options.threads = 1, options.compiler.flags.push_back("-DOTHER");
  EXPECT_TRUE(is_planned(task.program)) << "other flags";
  options.compiler.flags.pop_back();

  const string report = prepared(task.program).executable->report().sources.at(0);
  EXPECT_TRUE(fs::exists(report)) << report;
  for (const string extension : {".plan", ".so"}) {  // what is damaged or gone is made again
    for (const auto& entry : fs::directory_iterator(folder.path))
      if (entry.path().extension() == extension) std::ofstream(entry.path()) << "damaged";
    EXPECT_TRUE(is_planned(task.program)) << extension;
    EXPECT_FALSE(is_planned(task.program)) << extension;
  }
  EXPECT_GT(backend::KernelCache(folder).clear().kernels, 0);
  EXPECT_TRUE(fs::is_empty(folder.path));
}

TEST(KeptPlans, RunAndShowWhatWasPlanned) {
  const TemporaryFolder folder;
  auto ran = [&] {
    Context ctx({.device = "cpu", .threads = 1, .cache = folder.path});
    Routine step = ctx.compile(model(7));
    step.run_steps(6, {{Index("step", 4), 1}});
    string out = plan_text(step.plan());
    for (const double w : ctx.read("w").values()) out += " " + std::to_string(w);
    return out + " " + std::to_string(step.profile({.steps = 1, .first = {{Index("step", 4), 1}}}).kernels.size());
  };
  const string first = ran();
  EXPECT_EQ(ran(), first);
}

TEST(KeptPlans, TextsAreReadAsTheyWereWritten) {
  const backend::Runnable all{.kernels = 3,
                              .buffers = 9,
                              .arena_bytes = 640,
                              .parallel = true,
                              .places = {{2, 0}, {4, 64}},
                              .states = {{{0, 1}, true, false}, {{8, 3}, false, true}},
                              .data = {{1, 2}},
                              .observed = {4, 2}};
  auto written = [](const backend::Runnable& runnable) {
    backend::NoteWriter note;
    write(note, runnable);
    return note.text();
  };
  auto read = [](const string& text) -> std::optional<backend::Runnable> {
    backend::NoteReader note(text);
    backend::Runnable out = read_runnable(note);
    return note.is_right() ? std::optional(out) : std::nullopt;
  };
  const string text = written(all);
  EXPECT_EQ(read(text), all);
  EXPECT_EQ(read(written({})), backend::Runnable{});
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(read(text.substr(0, n))) << n;
  for (const string& wrong :
       {text + "1 ", "-" + text, " " + text, string("3 9 640 2 0 0 0 0 "), string("1 2 0 0 1 2 0 0 0 0 ")})
    EXPECT_FALSE(read(wrong)) << wrong;
}

// With launches, symbols, random bits, calls of products and copies of states.
TEST(KeptPlans, StepsOfAGpuAreReadAsTheyWereWritten) {
  Gpu gpu;
  gpu.library_products = true, gpu.called_f32 = {1000, 0}, gpu.one_block_work = 0;
  const Index step("step", 4);
  Tensor x = tensor(Array(parse_shape("4,64|32"), std::vector<double>(4 * 64 * 32, 0.5)), "x");
  Tensor w = param("w", {.output = {32}}), a = param("a", 1.0), b = param("b", 2.0);
  const Tensor y = nn::Dropout("drop", 0.5)(tanh(w(x[step])), nn::training({.step = step}));
  const Program program = train_step(sum(y), sgd({.lr = 0.1})) & assign(a, b) & assign(b, a);
  const plan::Plan plan = plan::make_plan(to_ir(program), gpu_target(gpu));
  const cuda::Step made = cuda::step_of(plan, codegen::CudaForm::launches);
  EXPECT_FALSE(made.calls.empty());
  const string text = cuda::to_text(made);
  const std::optional<cuda::Step> read = cuda::parse_step(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(cuda::to_text(*read), text);
  EXPECT_EQ(read->runnable, made.runnable);
  EXPECT_EQ(read->calls, made.calls);
  EXPECT_EQ(read->text.launches.size(), made.text.launches.size());
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(cuda::parse_step(text.substr(0, n))) << n;
  EXPECT_FALSE(cuda::parse_step(text + "1 "));
}

}  // namespace
}  // namespace caravan
