// Assignments that could not be made in place become copies after all other kernels.
#include "caravan/schedule/copy_states.h"

#include <gtest/gtest.h>

#include "caravan/plan/memory.h"
#include "caravan/schedule/update_in_place.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

Program swapped() {
  Tensor a = parameter("a", "3"), b = parameter("b", "3");
  return assign(a, b) & assign(b, a);
}

TEST(CopyStates, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"of a swap, the half that cannot be in place", swapped, {update_in_place}, R"(
kernel copy of b 2
  for i0 < 3:
    r0:f32 = b[i0]
    copy of b 2[i0] = r0
kernel copy of a 3
  for i0 < 3:
    r0:f32 = a[i0]
    b[i0] = r0
kernel a
  a = copy(copy of b 2, 12)
)"},
  };
  expect_rewritten(copy_states, rows);
}

TEST(CopyStates, LeavesNoAssignmentAndKeepsTheValueUntilItsCopy) {
  const loop::Module before = update_in_place(lowered(swapped()));
  ASSERT_EQ(before.assignments.size(), 1u);
  const loop::Module after = copy_states(before);
  EXPECT_TRUE(after.assignments.empty());
  ASSERT_TRUE(loop::library_call(after.kernels.back()));
  loop::verify(after);
  const plan::MemoryPlan memory = plan::plan_memory(after, host());
  ASSERT_EQ(memory.placements.size(), 1u);
  EXPECT_EQ(memory.placements[0].last, 2) << "the kernel that copies it";
}

TEST(CopyStates, ACallThatDoesNotFitIsAProblem) {
  loop::Module module = copy_states(update_in_place(lowered(swapped())));
  auto& call = std::get<loop::LibraryCall>(module.kernels.back().body);
  std::get<loop::LibraryCall::Copy>(call.function).bytes = 8;
  EXPECT_NE(loop::problem(module, module.kernels.back()).value_or("").find("has another size"), std::string::npos);
  call.reads.clear();
  EXPECT_TRUE(loop::problem(module, module.kernels.back()));
  call.reads = {99};
  EXPECT_NE(loop::problem(module, module.kernels.back()).value_or("").find("does not exist"), std::string::npos);
}

}  // namespace
}  // namespace caravan::schedule
