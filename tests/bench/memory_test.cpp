// How much memory the training steps need that `caravan bench` measures, and how they run with less.
#include <gtest/gtest.h>

#include "apps/bench/workload.h"
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
