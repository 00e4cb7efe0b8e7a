// Buffers of one kernel whose elements belong to one iteration become arrays of that iteration.
#include "caravan/schedule/local_buffers.h"

#include <gtest/gtest.h>

#include "caravan/loop/dependence.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

Tensor softmax_of(const Tensor& x, const std::string& sum) {
  const Tensor e = exp(x).named("e");
  return (e / einsum(spec(sum), e).named("s")).named("y");
}

TEST(LocalBuffers, BeforeAndAfter) {
  expect_rewritten(for_tested(local_buffers), {{"the row of a softmax",
                                                [] { return observe(softmax_of(parameter("x", "3|4"), "n|c => n|0")); },
                                                {fuse},
                                                R"(
kernel y
  local scratch:f32[4] in memory, aligned to 64 bytes
  local scratch2:f32[1] in memory, aligned to 64 bytes
  for b0 < 3:
    for o0 < 4:
      r0:f32 = x[4*b0 + o0]
      r1:f32 = exp(r0)
      scratch[o0] = r1
    r3:f32 := 0
    for c < 4:
      r2:f32 = scratch[c]
      r3 += r2
    scratch2[0] = r3
    for o0 < 4:
      r4:f32 = scratch[o0]
      r5:f32 = scratch2[0]
      r6:f32 = div(r4, r5)
      y[4*b0 + o0] = r6
)"}});
}

TEST(LocalBuffers, Refuses) {
  const std::vector<LoopRefusal> rows = {
      {"what another kernel reads", [] { return observe(softmax_of(parameter("x", "3|4"), "n|c => n|0")); }, {}},
      {"what is observed",
       [] {
         const Tensor e = exp(parameter("x", "3|4")).named("e");
         return observe({e, (e / einsum("n|c => n|0", e)).named("y")});
       },
       {fuse, forward_stores}},
      {"more than fits into the memory of a thread",
       [] { return observe(softmax_of(parameter("x", "2|140000"), "n|c => n|0")); },
       {fuse, forward_stores}},
  };
  expect_refused(for_tested(local_buffers), rows);
}

TEST(Digit, IsWhatALoopChoosesOfAnOffset) {
  using ir::Term;
  using loop::has_digit, loop::without_digit;
  const Term t = Term::iterator(0, 384), h = Term::iterator(1, 64), d = Term::iterator(2);
  const std::map<loop::Variable, int64_t> extents = {{0, 256}, {1, 6}, {2, 64}};
  const loop::Digit digit{1, 6, 64};
  EXPECT_TRUE(has_digit(t + h + d, digit, extents));
  EXPECT_EQ(without_digit(t + h + d, digit), Term::iterator(0, 64) + d);
  EXPECT_TRUE(has_digit(t + h + d + Term::number(768), digit, extents));
  EXPECT_EQ(without_digit(t + h + d + Term::number(768), digit), Term::iterator(0, 64) + d + Term::number(128));
  EXPECT_TRUE(has_digit(t + h - d + Term::number(63), digit, extents));
  EXPECT_FALSE(has_digit(t + h + d + Term::number(1), digit, extents)) << "reaches into the next iteration";
  EXPECT_FALSE(has_digit(t + h + d, digit, extents, 2)) << "a vector does";
  EXPECT_FALSE(has_digit(t + h + d + Term::number(64), digit, extents)) << "another place of the digit";
  EXPECT_FALSE(has_digit(Term::iterator(0, 100) + h + d, digit, extents)) << "not a multiple";
  EXPECT_FALSE(has_digit(t + h + d, {1, 6, 32}, extents)) << "another stride";
}

}  // namespace
}  // namespace caravan::schedule
