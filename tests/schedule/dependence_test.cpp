#include "caravan/loop/dependence.h"

#include <gtest/gtest.h>

#include "by_hand.h"

namespace caravan::schedule {
namespace {

using namespace loop;
using ir::Term;

constexpr int kB = 1, kY = 2;  // buffers of by_hand

// Two loops over one variable, of 4 and 2 iterations, as passes leave them behind: the longer one counts.
TEST(Dependence, OfLoopsOverTheSameVariableTheLongestCounts) {
  auto store = [](int64_t extent) { return looped(1, {Store{kY, Term::iterator(0, 2) + kJ, 0}}, extent); };
  for (const Block& body : {Block{store(4), store(2)}, Block{store(2), store(4)}}) {
    EXPECT_EQ(extents_of(body).at(1), 4);
    EXPECT_FALSE(independent(0, 2, body)) << "elements 2 and 3 are written in both iterations";
  }
  EXPECT_TRUE(independent(0, 2, {store(2), store(2)}));
}

// Blocks of 128 columns of a matrix that has 200: the second block has 72, and one more would be the next row.
TEST(Dependence, ABlockMayBeShorterThanTheOthers) {
  auto blocks = [](int64_t rest) {
    auto store = [](int64_t size) {
      return looped(1, {Store{kY, Term::iterator(2, 200) + Term::iterator(0, 128) + kJ, 0}}, size);
    };
    return Block{looped(2, {If{{Term::number(0) - kI}, {store(128)}}, If{{kI - Term::number(1)}, {store(rest)}}}, 3)};
  };
  EXPECT_TRUE(independent(0, 2, blocks(72)));
  EXPECT_FALSE(independent(0, 2, blocks(73)));
}

// Rows of a table whose columns are 65 elements apart, with an index of which a guard says how large it may be.
TEST(Dependence, AGuardedIndexHasARange) {
  const Term id = Term::load(7);
  auto adds = [&](std::vector<Term> guards) {
    return Block{
        looped(1, {If{std::move(guards), {StoreCombine{kY, Term::iterator(0, 65) + id, Accumulator::add, 0}}}}, 1000)};
  };
  EXPECT_TRUE(independent(0, 8, adds({id, Term::number(64) - id})));
  EXPECT_FALSE(independent(0, 8, adds({id, Term::number(65) - id})));
  EXPECT_FALSE(independent(0, 8, adds({id})));
  EXPECT_FALSE(independent(0, 8, adds({Term::number(64) - id})));
  EXPECT_FALSE(independent(0, 8, adds({})));
}

// In lockstep, the first of two additions is done for all iterations before the second. That is another order of the
// sum, whether they are guarded or not.
TEST(Dependence, OnlyOneStatementMayAddToATotalInLockstep) {
  auto adds = [](int from) { return Block{element(0, from, kI), Combine{1, Accumulator::add, 0}}; };
  auto guarded = [&](int from) { return If{{Term::number(1) - kI}, adds(from)}; };
  const For once{0, 3, LoopKind::serial, {guarded(0)}}, twice{0, 3, LoopKind::serial, {guarded(0), guarded(kB)}};
  EXPECT_TRUE(side_by_side(once));
  EXPECT_FALSE(side_by_side(twice));
}

}  // namespace
}  // namespace caravan::schedule
