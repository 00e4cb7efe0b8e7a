// Which threads of a single block run each kernel of a small program.
#include "caravan/schedule/place_in_block.h"

#include <gtest/gtest.h>

#include <string>

#include "caravan/plan/plan.h"
#include "caravan/schedule/order_stages.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

// "| 0 q, 64 p | 0 r": each kernel with its first thread, and where the block waits.
std::string placed(const Program& program, int* threads = nullptr) {
  const loop::Module module = plan::make_plan(prepared(program), gpu_target()).scheduled;
  std::string out;
  for (const loop::Kernel& kernel : module.kernels)
    out += (kernel.grid.waits_before ? (out.empty() ? "| " : " | ") : ", ") + std::to_string(kernel.grid.first) + " " +
           kernel.name;
  if (threads) *threads = module.block_threads;
  return out;
}

TEST(PlaceInBlock, KernelsOfAStageRunSideBySide) {
  const Tensor a = parameter("a", "40"), b = parameter("b", "64"), c = parameter("c", "300");
  const Tensor p = exp(a).named("p"), q = sin(b).named("q"), r = exp(c).named("r");
  const Tensor s = sum(c * c).named("s");
  struct Row {
    const char* name;
    Program program;
    const char* placed;
    int threads;
  };
  const Row rows[] = {
      {"whole warps", observe({p, q}), "| 0 q, 64 p", 128},
      {"as many threads as a stage has work for", observe({p, q, r}), "| 0 q, 64 r, 384 p", 512},
      {"a stage waits for the one before", observe((a * s).named("u")), "| 0 s | 0 u", 128},
      {"threads that wait for other warps run alone", observe({p, s, q}), "| 0 s | 0 q, 64 p", 128},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    int threads = 0;
    EXPECT_EQ(placed(row.program, &threads), row.placed);
    EXPECT_EQ(threads, row.threads);
  }
}

TEST(PlaceInBlock, MustRefuse) {
  auto scaled = [](const char* shape) { return observe((parameter("x", shape) * 2.0).named("y")); };
  Target few_buffers = gpu_target(), with_library = gpu_target();
  few_buffers.gpu.most_buffers = 1;
  with_library.gpu.library_products = true;
  with_library.gpu.called_f32 = {0, 0};
  struct Row {
    const char* reason;
    Program program;
    Target target;
  };
  const Row rows[] = {
      {"many operations", scaled("1000,1000"), gpu_target()},
      {"more buffers than a launch has arguments", scaled("100,100"), few_buffers},
      {"a block cannot call a library",
       observe(einsum("ij; jk => ik", parameter("a", "32,32"), parameter("b", "32,32"))), with_library},
  };
  for (const Row& row : rows) {
    const loop::Module module = plan::make_plan(prepared(row.program), row.target).scheduled;
    EXPECT_FALSE(module.in_one_block) << row.reason << loop::to_string(module);
    const loop::Module before = order_stages(module, row.target);
    EXPECT_EQ(loops(place_in_block(before, row.target)), loops(before)) << row.reason << ": no loop changes";
  }
}

TEST(PlaceInBlock, OneBlockRunsASmallProgram) {
  struct Row {
    const char* name;
    Program program;
    bool in_one_block;
  };
  auto scaled = [](const char* shape) { return observe((parameter("x", shape) * 2.0).named("y")); };
  const Row rows[] = {
      {"few operations", scaled("100,100"), true},
      {"a product of two small matrices", observe(einsum("ij; jk => ik", parameter("a", "8,8"), parameter("b", "8,8"))),
       true},
  };
  for (const Row& row : rows)
    EXPECT_EQ(plan::make_plan(prepared(row.program), gpu_target()).scheduled.in_one_block, row.in_one_block)
        << row.name;
}

}  // namespace
}  // namespace caravan::schedule
