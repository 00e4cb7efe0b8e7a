// Threads share the columns of a table to which rows are added through an index tensor.
#include "caravan/schedule/share_scatters.h"

#include <gtest/gtest.h>

#include "caravan/plan/plan.h"
#include "caravan/schedule/hoist.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

using namespace loop;

const LoopPass kShareScatters = [](const Module& module) { return share_scatters(module, tested_target()); };

// So many indices of a table of so many rows; some rows are taken often, some never.
Tensor table_ids(int64_t count, int64_t rows) {
  std::vector<double> values;
  for (int64_t k = 0; k < count; ++k) values.push_back(double(k * k % 31 * 7 % rows));
  return tensor(Array(parse_shape(std::to_string(count) + "|"), values, DType::i32), "ids");
}
Program table_rows_added(const std::string& rows, int64_t count, int64_t table) {
  return observe(scatter_add(parameter("g", rows), table_ids(count, table), table).named("y"));
}

TEST(ShareScatters, BeforeAndAfter) {
  expect_rewritten(kShareScatters, {{"columns in blocks, and the guard around them",
                                     [] { return table_rows_added("2048|64", 2048, 65); },
                                     {hoist},
                                     R"(
kernel y
  r0:f32 = 0
  for e < 4160:
    y[e] = r0
  for d0 < 4:
    for b0 < 2048:
      r1:i32 = ids[b0]
      r2:i64 = cast r1 to i64
      if r2 >= 0 and 64 - r2 >= 0:
        for d0_in_block < 16:
          r3:f32 = g[64*b0 + 16*d0 + d0_in_block]
          y[1040*d0 + 65*d0_in_block + r2] += r3
)"}});
}

TEST(ShareScatters, Refusals) {
  expect_refused(
      kShareScatters,
      {
          {"little work", [] { return table_rows_added("512|64", 512, 28); }, {}},
          {"few columns", [] { return table_rows_added("32768|16", 32768, 28); }, {}},
          {"columns that have no block", [] { return table_rows_added("4096|61", 4096, 28); }, {}},
          {"rows that are not scattered", [] { return observe(einsum("i,j => i", parameter("a", "4096,64"))); }, {}},
      });
}

// With other threads, without the pass, and without any optimisation, the sums have the same bits.
TEST(ShareScatters, ChangesNoBit) {
  Array numbers(parse_shape("2048|64"), DType::f32);
  for (int64_t i = 0; i < numbers.size(); ++i) numbers.set(i, double(i % 1013) / 7 - 40);
  auto sums = [&](int threads, std::vector<std::string> off) {
    const Tensor y = scatter_add(tensor(numbers, "g"), table_ids(2048, 65), 65);
    Context ctx({.device = "cpu", .threads = threads, .passes_off = std::move(off)});
    return ctx.eval(y).values();
  };
  const std::vector<double> expected = sums(1, {"share_scatters", "vectorize", "parallelize", "fuse"});
  EXPECT_EQ(sums(1, {}), expected);
  EXPECT_EQ(sums(3, {}), expected);
  EXPECT_EQ(sums(3, {"vectorize"}), expected);
}

TEST(ShareScatters, ThreadsTakeBlocksOfColumns) {
  const ir::Program program = to_ir(table_rows_added("4096|64", 4096, 65));
  auto is_shared = [&](const plan::Options& options) {
    return loops(plan::make_plan(program, tested_target(), options).scheduled).find("for d0 < 4 parallel") !=
           std::string::npos;
  };
  EXPECT_TRUE(is_shared({}));
  EXPECT_FALSE(is_shared({.off = {"share_scatters"}}));
}

}  // namespace
}  // namespace caravan::schedule
