// Loops of a sum that GCC must not unroll.
#include "caravan/schedule/keep_loops.h"

#include <gtest/gtest.h>

#include "by_hand.h"

namespace caravan::schedule {
namespace {

using namespace loop;

TEST(KeepLoops, InnerLoopsOfASumThatIsNotReadInTheOrderOfMemory) {
  auto is_kept = [](int64_t outer, int64_t inner) {
    const Term offset = Term::number(6) + Term::iterator(0, outer) + Term::iterator(1, inner);
    const Module sum =
        by_hand({DType::f32, DType::f32},
                {Reset{0, 0}, looped(0, {looped(1, {element(1, 0, offset), Combine{0, Accumulator::add, 1}})}),
                 Store{2, {}, 0}});
    return to_string(keep_loops(sum)).find("for j < 3 kept:") != std::string::npos;
  };
  EXPECT_TRUE(is_kept(3, -1));  // backwards
  EXPECT_FALSE(is_kept(3, 1));
  EXPECT_FALSE(is_kept(-3, 1));  // the outermost loop is not the one that is unrolled
}

}  // namespace
}  // namespace caravan::schedule
