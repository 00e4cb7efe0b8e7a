// Loops that the lanes of a GPU share, unrolled.
#include "caravan/schedule/unroll_lanes.h"

#include <gtest/gtest.h>

#include "caravan/lower/lower.h"
#include "caravan/optimize/split_sums.h"
#include "caravan/schedule/map_to_grid.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

TEST(UnrollLanes, BeforeAndAfter) {
  struct Row {
    const char* name;
    Program program;
    bool unrolled;
  };
  const Row rows[] = {
      {"several iterations of a lane", observe(einsum("i,j => i", parameter("a", "64,512")).named("y")), true},
      {"one iteration of a lane", observe(einsum("i,j => i", parameter("a", "64,32")).named("y")), false},
      {"no lanes", observe((parameter("a", "64,512") + 1).named("y")), false},
  };
  for (const Row& row : rows) {
    const loop::Module before =
        map_to_grid(lower::lower(optimize::split_sums(prepared(row.program), gpu_target())), gpu_target());
    const loop::Module after = unroll_lanes(before, gpu_target());
    loop::verify(after);
    const std::string text = loop::to_string(after);
    EXPECT_EQ(text.find(" lanes 4 at once:") != text.npos, row.unrolled) << row.name << text;
    EXPECT_EQ(before.kernels == after.kernels, !row.unrolled) << row.name;
  }
}

}  // namespace
}  // namespace caravan::schedule
