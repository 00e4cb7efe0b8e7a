// A large tensor takes the place of one that is read for the last time.
#include "caravan/schedule/store_over.h"

#include <gtest/gtest.h>

#include "by_hand.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

// A GPU for which every tensor is large.
loop::Module stored_over(const loop::Module& module) {
  Gpu gpu;
  gpu.least_ordered = 1;
  loop::Module out = store_over(module, gpu_target(gpu));
  loop::verify(out);
  return out;
}
Tensor hidden() { return exp(parameter("a", "4,8")).named("x"); }

TEST(StoreOver, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"an element is stored where it was read",
       [] { return observe(sum(sin(cos(hidden()).named("y")).named("z")).named("total")); },
       {},
       R"(
kernel x
  for o0 < 4:
    for o1 < 8:
      r0:f32 = a[8*o0 + o1]
      r1:f32 = exp(r0)
      x[8*o0 + o1] = r1
kernel y
  for o0 < 4:
    for o1 < 8:
      r0:f32 = x[8*o0 + o1]
      r1:f32 = cos(r0)
      x[8*o0 + o1] = r1
kernel z
  for o0 < 4:
    for o1 < 8:
      r0:f32 = x[8*o0 + o1]
      r1:f32 = sin(r0)
      x[8*o0 + o1] = r1
kernel total
  r1:f32 := 0
  for o0 < 4:
    for o1 < 8:
      r0:f32 = x[8*o0 + o1]
      r1 += r0
  total[0] = r1
)"},
  };
  expect_rewritten(stored_over, rows);
}

TEST(StoreOver, Refusals) {
  const std::vector<LoopRefusal> rows = {
      {"the old tensor is read later",
       [] {
         const Tensor x = hidden();
         return observe(sum(cos(x).named("y")).named("s")) & observe(sum(x).named("t"));
       },
       {}},
      {"the old tensor is observed",
       [] {
         const Tensor x = hidden();
         return observe(x) & observe(sum(cos(x).named("y")).named("s"));
       },
       {}},
      {"the new tensor is observed", [] { return observe(cos(hidden()).named("y")); }, {}},
      {"a state is not overwritten", [] { return observe(sum(cos(parameter("w", "4,8")).named("y")).named("s")); }, {}},
      {"another element is read",
       [] { return observe(sum(einsum("i,j => j,i", hidden()).named("y")).named("s")); },
       {}},
      {"another size", [] { return observe(sum(einsum("i,j => i", hidden()).named("y")).named("s")); }, {}},
      {"another precision",
       [] { return observe(sum(cast(cast(hidden(), DType::bf16).named("y"), DType::f32)).named("s")); },
       {}},
  };
  expect_refused(stored_over, rows);
  const LoopPass small = [](const loop::Module& module) { return store_over(module, gpu_target()); };
  expect_refused(small, {{"small tensors", [] { return observe(sum(cos(hidden()).named("y")).named("s")); }, {}}});
}

// Kernels over buffers of 1024 elements: y, number 2, is stored by the first, and z, number 3, by the second.
loop::Module two_kernels(loop::Block second) {
  loop::Module module = by_hand({kF, kF, kF, kF}, {looped(0, {element(0, 0, kI), loop::Store{2, kI, 0}}, 1000)});
  for (ir::Buffer& buffer : module.buffers) buffer.shape = parse_shape("1024");
  module.buffers.push_back({"z", parse_shape("1024"), kF, ir::BufferKind(ir::Computed{}), {}});
  module.observed.clear();
  loop::Kernel kernel = module.kernels[0];
  kernel.body = std::move(second);
  module.kernels.push_back(kernel);
  loop::verify(module);
  return module;
}
TEST(StoreOver, AnElementIsReadForTheLastTimeBeforeItIsOverwritten) {
  auto store = [] { return loop::Store{3, kI, 0}; };
  const loop::Module good = two_kernels({looped(0, {element(0, 2, kI), store()}, 1000)});
  EXPECT_NE(loops(stored_over(good)), loops(good));
  const ir::Term at = ir::Term::iterator(0, 8) + kJ;
  const loop::Module rows =
      two_kernels({looped(0,
                          {loop::Reset{1, 0}, looped(1, {element(0, 2, at), loop::Combine{1, Accumulator::add, 0}}, 8),
                           looped(1, {element(2, 2, at), sum_of(3, 2, 1), loop::Store{3, at, 3}}, 8)},
                          4)});
  EXPECT_NE(loops(stored_over(rows)), loops(rows)) << "after the whole row was read";
  expect_refused_by_hand(
      stored_over,
      {{"the next element is read", two_kernels({looped(0, {element(0, 2, kI + ir::Term::number(1)), store()}, 1000)})},
       {"it is read after the store", two_kernels({looped(0, {element(0, 1, kI), store(), element(1, 2, kI)}, 1000)})},
       {"another loop reads it later",
        two_kernels({looped(0, {element(0, 2, kI), store()}, 1000), looped(1, {element(1, 2, kJ)}, 1000)})}});
}

}  // namespace
}  // namespace caravan::schedule
