// Loops of a sum that GCC must not unroll.
#include "caravan/schedule/keep_loops.h"

#include <gtest/gtest.h>

#include "by_hand.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {
namespace {

using namespace loop;

// sum += x[6 + di*i + dj*j + dk*k], with i outside.
Term offset(int64_t di, int64_t dj, int64_t dk = 0) {
  return Term::number(6) + Term::iterator(0, di) + Term::iterator(1, dj) + Term::iterator(2, dk);
}
Block added(Term at) { return {element(1, 0, std::move(at)), Combine{0, Accumulator::add, 1}}; }
Module in_two_loops(Term at, LoopKind inner = LoopKind::serial) {
  return by_hand({kF, kF}, {Reset{0, 0}, looped(0, {For{1, 3, inner, added(std::move(at))}}), Store{2, {}, 0}});
}
Module in_three_loops(Term at) {
  return by_hand({kF, kF}, {Reset{0, 0}, looped(0, {looped(1, {looped(2, added(std::move(at)))})}), Store{2, {}, 0}});
}
Module of_integers(Term at) {
  return by_hand({DType::i32, kF, DType::i32, kF},
                 {Reset{0, 0},
                  looped(0, {looped(1, {element(1, 0, std::move(at)), Define{2, Cast{1, DType::i32}},
                                        Combine{0, Accumulator::add, 2}})}),
                  Define{3, Cast{0, kF}}, Store{2, {}, 3}});
}
// The element is added to in memory, which the C compiler may keep in a register.
Module in_memory(Term at, Term to) {
  return by_hand(
      {kF, kF},
      {looped(0, {looped(1, {element(1, 0, std::move(at)), StoreCombine{2, std::move(to), Accumulator::add, 1}})})});
}

std::vector<std::string> kept(const Module& module) {
  std::vector<std::string> out;
  const Module marked = keep_loops(module);
  for_each_of<For>(statements(marked.kernels[0]), [&](const For& f) {
    if (f.unroll == Unroll::never) out.push_back(marked.kernels[0].variables[size_t(f.variable)]);
  });
  // It changes nothing else.
  Module again = marked;
  for_each_of<For>(statements(again.kernels[0]), [](For& f) { f.unroll = Unroll::free; });
  EXPECT_EQ(again.kernels, module.kernels);
  return out;
}

struct Row {
  const char* name;
  Module module;
  std::vector<std::string> kept;
};
void expect_kept(const std::vector<Row>& rows) {
  for (const Row& row : rows) EXPECT_EQ(kept(row.module), row.kept) << row.name;
}

TEST(KeepLoops, InnerLoopsOfASumThatIsNotReadInTheOrderOfMemory) {
  expect_kept({
      {"backwards", in_two_loops(offset(3, -1)), {"j"}},
      {"backwards, into memory", in_memory(offset(3, -1), Term()), {"j"}},
      {"a larger stride inside of a smaller one", in_three_loops(offset(9, 1, 3)), {"j", "k"}},
      {"a loop that repeats what it reads counts as any stride", in_three_loops(offset(9, 0, -1)), {"j", "k"}},
  });
}

TEST(KeepLoops, MustRefuse) {
  expect_kept({
      {"in the order of memory", in_two_loops(offset(3, 1)), {}},
      {"in the order of memory, three loops", in_three_loops(offset(9, 3, 1)), {}},
      {"backwards in the outermost loop, which is not the one that is unrolled", in_two_loops(offset(-3, 1)), {}},
      {"a larger stride than in the outermost loop", in_two_loops(offset(1, 3)), {}},
      {"integers do not round", of_integers(offset(3, -1)), {}},
      {"a loop whose kind says how it is computed", in_two_loops(offset(3, -1), LoopKind::vector), {}},
      {"the same, unrolled", in_two_loops(offset(3, -1), LoopKind::unrolled), {}},
      {"another element of memory in each inner iteration", in_memory(offset(3, -1), kJ), {}},
  });
}

}  // namespace
}  // namespace caravan::schedule
