// Orders of sums: which ones a program may have, and that they are a part of what it computes.
#include <gtest/gtest.h>

#include "caravan/base/error.h"
#include "caravan/ir/program.h"
#include "pass_table.h"

namespace caravan::ir {
namespace {

TEST(SumOrder, MustRefuse) {
  struct Row {
    const char* reason;
    SumOrder order;
  };
  const Row rows[] = {
      // of y[i] += a[i, j, k] over i < 4, j < 100, k < 640
      {"a written iterator", {-1, 0, {{0, 2}}}},
      {"an iterator that does not exist", {-1, 0, {{3, 2}}}},
      {"no iterator", {-1, 0, {{-1, 2}}}},
      {"an empty block", {-1, 0, {{1, 0}}}},
      {"a block that is all of it", {-1, 0, {{1, 100}}}},
      {"blocks of blocks that do not fit", {-1, 0, {{1, 10}, {1, 25}}}},
      {"one block twice", {-1, 0, {{1, 10}, {1, 10}}}},
      {"the larger block first", {-1, 0, {{1, 20}, {1, 10}}}},
      {"the outer loop first", {-1, 0, {{1, 10}, {2, 10}}}},
      {"lanes are the innermost loop", {1, 8, {{2, 10}, {1, 16}}}},
      {"lanes across blocks", {2, 8, {{2, 12}}}},
      {"lanes of no number", {2, 0, {}}},
      {"one lane", {2, 1, {}}},
      {"a number of lanes along nothing", {-1, 8, {}}},
  };
  const Program program = to_ir(observe(einsum("i,j,k => i", parameter("a", "4,100,640"))));
  for (const Row& row : rows) {
    Program p = program;
    p.accumulations.back().order = row.order;
    EXPECT_THROW(verify(p), InternalError) << row.reason;
  }
  for (const SumOrder& order : {SumOrder{2, 8, {{2, 64}, {1, 1}, {1, 10}}},
                                SumOrder{-1, 0, {{2, 10}, {2, 100}, {1, 5}}}, SumOrder{1, 8, {{1, 16}, {2, 4}}}}) {
    Program p = program;
    p.accumulations.back().order = order;
    EXPECT_NO_THROW(verify(p));
    EXPECT_FALSE(equal(p, p.accumulations.back(), program, program.accumulations.back()))
        << "another order is another sum";
    EXPECT_NE(hash(p, p.accumulations.back()), hash(program, program.accumulations.back()));
  }
  Program largest = to_ir(observe(einmax("i,j => i", parameter("a", "4,640"))));
  largest.accumulations.back().order.blocks = {{1, 64}};
  EXPECT_THROW(verify(largest), InternalError) << "a maximum";
}

}  // namespace
}  // namespace caravan::ir
