// Kernels written by hand, for what no pass makes of any program today.
#pragma once

#include <gtest/gtest.h>

#include "caravan/ops/table.h"
#include "pass_table.h"

namespace caravan::schedule {

// A kernel by hand over buffers a[3], b[3] (states) and y[3] (computed and observed), all f32; loops have the variables
// 0, 1 and 2.
inline loop::Module by_hand(std::vector<DType> registers, loop::Block body) {
  loop::Module out;
  for (const char* name : {"a", "b", "y"}) {
    const bool computed = name[0] == 'y';
    out.buffers.push_back({name,
                           parse_shape("3"),
                           DType::f32,
                           computed ? ir::BufferKind(ir::Computed{}) : ir::BufferKind(ir::StateLeaf{}),
                           {}});
  }
  out.observed = {2};
  out.kernels.push_back({"k", {}, {"i", "j", "k"}, {registers.begin(), registers.end()}, std::move(body)});
  loop::verify(out);
  return out;
}
inline loop::Statement looped(int variable, loop::Block body, int64_t extent = 3) {
  return loop::For{variable, extent, loop::LoopKind::serial, std::move(body)};
}
inline loop::Statement element(int to, int buffer, ir::Term offset) {
  return loop::Define{to, loop::Load{buffer, std::move(offset)}};
}
inline loop::Statement sum_of(int to, int a, int b) {
  return loop::Define{to, loop::Apply{Op::add, DType::f32, {a, b, -1}}};
}
inline const DType kF = DType::f32;
inline const ir::Term kFirst = ir::Term::number(0), kI = ir::Term::iterator(0), kJ = ir::Term::iterator(1);
struct HandRow {
  const char* reason;
  loop::Module module;
};
inline void expect_refused_by_hand(LoopPass pass, const std::vector<HandRow>& rows) {
  for (const HandRow& row : rows) EXPECT_EQ(loops(pass(row.module)), loops(row.module)) << row.reason;
}

}  // namespace caravan::schedule
