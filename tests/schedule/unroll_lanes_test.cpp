// Loops that the lanes of a GPU share, unrolled.
#include "caravan/schedule/unroll_lanes.h"

#include <gtest/gtest.h>

#include "caravan/schedule/map_to_grid.h"
#include "for_gpu.h"

namespace caravan::schedule {
namespace {

loop::Module on_grid(const Program& program) { return map_to_grid(lowered_for_gpu(program), gpu_target()); }

TEST(UnrollLanes, BeforeAndAfter) {
  struct Row {
    const char* name;
    Program program;
    const char *before, *after;  // the head of the loop that changes
  };
  const Row rows[] = {
      {"several iterations of a lane", observe(einsum("i,j => i", parameter("a", "64,512")).named("y")),
       "for j < 512 lanes:", "for j < 512 lanes 4 at once:"},
      {"a nest: the outer loop", observe(einsum("i,j,k => i", parameter("a", "64,32,16")).named("y")),
       "for j < 32 lanes:", "for j < 32 lanes 4 at once:"},
  };
  for (const Row& row : rows) {
    const loop::Module before = on_grid(row.program), after = unroll_lanes(before, gpu_target());
    loop::verify(after);
    std::string expected = loop::to_string(before);
    const size_t at = expected.find(row.before);
    ASSERT_NE(at, expected.npos) << row.name << expected;
    expected.replace(at, std::string(row.before).size(), row.after);
    EXPECT_EQ(loop::to_string(after), expected) << row.name;
    EXPECT_EQ(unroll_lanes(after, gpu_target()).kernels, after.kernels) << row.name << ", a second time";
  }
}

TEST(UnrollLanes, MustRefuse) {
  const Refusal rows[] = {
      {"one iteration of a lane", [] { return observe(einsum("i,j => i", parameter("a", "64,32"))); }},
      {"no lanes", [] { return observe(parameter("a", "64,512") + 1); }},
      {"a product in tiles",
       [] { return observe(einsum("ij;jk=>ik", parameter("a", "64,64"), parameter("b", "64,64"))); }},
      {"a loop that must run in order: the search for a position",
       [] { return observe(argmax("i,j => i", parameter("a", "64,512"))); }},
  };
  for (const Refusal& row : rows) {
    const loop::Module before = on_grid(row.program());
    EXPECT_EQ(unroll_lanes(before, gpu_target()).kernels, before.kernels) << row.reason << loop::to_string(before);
  }
}

}  // namespace
}  // namespace caravan::schedule
