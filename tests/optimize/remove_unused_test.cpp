// What nothing needs goes.
#include "caravan/optimize/remove_unused.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::optimize {
namespace {

TEST(RemoveUnused, DropsWhatNothingNeeds) {
  ir::Program p = to_ir(observe({exp(parameter("a", "2")).named("kept"), sin(parameter("b", "2")).named("dropped")}));
  p.observed.pop_back();
  const ir::Program after = remove_unused(p);
  ir::verify(after);
  EXPECT_EQ(body_of(after), "kept[o0] += exp(a[o0])   for o0 < 2\n");
  EXPECT_EQ(after.buffers.size(), 2u);
  // The step of random bits is needed as long as they are.
  const ir::Program random = to_ir(
      observe(random_bits("s", {.output = {2}, .step = cast(parameter("step", "") * 2, DType::i64).named("twice")})
                  .named("bits")));
  EXPECT_EQ(remove_unused(random).buffers.size(), random.buffers.size());
}

}  // namespace
}  // namespace caravan::optimize
