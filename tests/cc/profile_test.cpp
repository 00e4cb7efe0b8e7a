// Routine::profile: real steps with a clock between their kernels.
#include "caravan/plan/profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "caravan/caravan.h"
#include "caravan/plan/plan.h"

namespace caravan {
namespace {

struct Line {
  Tensor w = param("w", Array(parse_shape("1->1"), {0.0}));
  Index i{"i", 8};
  Tensor x = Array(parse_shape("8,1|1"), {1, 2, 3, 4, 5, 6, 7, 8})[i];
  Tensor loss = mean(square(w(x) - 2 * x)).named("loss");
  Program step = train_step(loss, sgd({.lr = 0.001, .momentum = 0.9}));
};

TEST(RoutineProfile, TimesEveryKernelOfTheStep) {
  const Line line;
  Context ctx({.device = "cpu", .threads = 1});
  Routine step = ctx.compile(line.step);
  const plan::Profile profile = step.profile({.steps = 500, .first = {{line.i, 0}}});
  EXPECT_EQ(profile.steps, 500);
  EXPECT_EQ(profile.kernels.size(), step.plan().scheduled.kernels.size());
  EXPECT_GT(profile.step_microseconds, 0);
  EXPECT_GT(profile.kernel_microseconds, 0);
  EXPECT_GT(profile.peaks.flops, 1e8) << "of the slowest processor in use";
  ASSERT_GE(profile.peaks.memory.size(), 1u);
  for (const Peaks::Memory& level : profile.peaks.memory) EXPECT_GT(level.bandwidth, 1e7);
  double share = 0;
  for (const plan::KernelProfile& kernel : profile.kernels) share += kernel.share;
  EXPECT_NEAR(share, 1, 1e-9);
}

TEST(RoutineProfile, RunsStepsAsRunStepsDoes) {
  const Line line;
  Context profiled({.device = "cpu"}), ran({.device = "cpu"});
  Routine step = profiled.compile(line.step);
  step.profile({.steps = 21, .first = {{line.i, 3}}});
  ran.compile(line.step).run_steps(1 + 2 * 21,
                                   {{line.i, 3}});  // one to begin with, then 21 with and 21 without a clock
  for (const std::string& name : ran.names()) EXPECT_EQ(profiled.read(name).values(), ran.read(name).values()) << name;
  step.run({{line.i, 0}});
  EXPECT_GT(step.read(line.loss).item(), 0) << "and it goes on";
}

TEST(RoutineProfile, ChoosesTheNumberOfStepsAndTakesManyKernels) {
  std::vector<Tensor> parts;  // more kernels than one function calls, a copy of a state among them
  for (int k = 0; k < 300; ++k) parts.push_back(sum(param("p" + std::to_string(k), Array(parse_shape("5")))));
  Tensor a = param("a", Array(parse_shape("3"))), b = param("b", Array(parse_shape("3")));
  const Program step = observe(parts) & assign(a, b) & assign(b, a);
  Context ctx({.device = "cpu", .threads = 1});
  const plan::Profile profile = ctx.compile(step).profile();
  EXPECT_GT(profile.steps, 1);
  EXPECT_GT(profile.kernels.size(), 257u);
  EXPECT_EQ(std::count_if(profile.kernels.begin(), profile.kernels.end(),
                          [](const plan::KernelProfile& k) { return k.loops == "copy"; }),
            1);
}

TEST(RoutineProfile, SaysWhatCannotBeProfiled) {
  const Line line;
  Context interp({.device = "interp"}), cpu({.device = "cpu"});
  EXPECT_THROW(interp.compile(line.step).profile({.first = {{line.i, 0}}}), BackendError);
  EXPECT_THROW(cpu.compile(line.step).profile({.steps = -1, .first = {{line.i, 0}}}), StateError);
  EXPECT_THROW(cpu.compile(line.step).profile(), StateError) << "the index is not bound";
}

}  // namespace
}  // namespace caravan
