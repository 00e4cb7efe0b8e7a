// What the verifier of loops refuses.
#include <gtest/gtest.h>

#include "caravan/base/error.h"
#include "caravan/loop/loop.h"
#include "caravan/ops/table.h"

namespace caravan::loop {
namespace {

// Buffers a (f32 state), n (i32 computed), h (f16 computed), d (data), s (random); one loop variable, registers f32,
// f32, i64, i32.
Module module_with(Block body) {
  Module m;
  m.symbols = {{"at", 3}};
  m.buffers = {{"a", parse_shape("4"), DType::f32, ir::StateLeaf{}, {}},
               {"n", parse_shape("4"), DType::i32, ir::Computed{}, {}},
               {"h", parse_shape("4"), DType::f16, ir::Computed{}, {}},
               {"d", parse_shape("4"), DType::f32, ir::DataLeaf{Array(parse_shape("4"))}, {}},
               {"s", parse_shape("4"), DType::f32, ir::RandomLeaf{"s", 0, 32, 0}, {}}};
  Kernel kernel;
  kernel.name = "k", kernel.variables = {"i", "j"}, kernel.registers = {DType::f32, DType::f32, DType::i64, DType::i32},
  kernel.body = std::move(body);
  m.kernels = {kernel};
  return m;
}
Statement loop_of(Block body, Variable variable = 0, int64_t extent = 4) {
  return For{variable, extent, LoopKind::serial, std::move(body)};
}
Statement define(Register to, Value value) { return Define{to, std::move(value)}; }

TEST(LoopVerifier, AcceptsWhatLoweringMakes) {
  const Term i = Term::iterator(0);
  verify(module_with({loop_of({define(0, Load{0, i}), Reset{1, 0}, Combine{1, Accumulator::add, 0}, Store{0, i, 1}})}));
}
// Locals p (f32), q (f16), r (f32, no piece), of two elements each.
Module with_locals(Block body) {
  Module m = module_with(std::move(body));
  m.kernels[0].locals = {
      {"p", DType::f32, 2, Scope::piece}, {"q", DType::f16, 2, Scope::piece}, {"r", DType::f32, 2, Scope::registers}};
  return m;
}
TEST(LoopVerifier, Pieces) {
  const Term i = Term::iterator(0), zero = Term::number(0), two = Term::number(2);
  verify(with_locals({Move{0, 0, two}, Move{0, 0, zero, true}, Move{1, 2, zero}, loop_of({Move{0, 0, i * 2}}, 0, 2)}));
  struct Refusal {
    const char* phrase;
    Block body;
  };
  const Refusal rows[] = {
      {"local 7 does not exist", {Move{7, 0, zero}}},
      {"`r` is moved but is no piece of a buffer", {Move{2, 0, zero}}},
      {"`p` is moved but is no piece of a buffer", {Move{0, Memory::local(2), zero}}},
      {"`q` is a piece of another precision than `a`", {Move{1, 0, zero}}},
      {"`d` is stored but is data", {Move{0, 3, zero, true}}},
      {"`p` does not begin at a multiple of its size in `a`", {Move{0, 0, Term::number(1)}}},
      {"`p` does not begin at a multiple of its size in `a`", {loop_of({Move{0, 0, i}})}},
  };
  for (const Refusal& row : rows) {
    const Module m = with_locals(row.body);
    EXPECT_EQ(problem(m, m.kernels[0]).value_or("nothing"), row.phrase) << to_string(m, m.kernels[0]);
  }
}
TEST(LoopVerifier, MustRefuse) {
  const Term i = Term::iterator(0), zero = Term::number(0);
  struct Refusal {
    const char* phrase;
    Block body;
  };
  const Refusal rows[] = {
      {"register r0 is read before it is defined", {Store{0, zero, 0}}},
      {"register r0 is read outside its block", {loop_of({define(0, Load{0, i})}), Store{0, zero, 0}}},
      {"register r0 has two definitions", {define(0, Constant{1}), define(0, Constant{2})}},
      {"register r9 has no precision", {define(9, Constant{1})}},
      {"register r1 is accumulated without a reset",
       {define(0, Constant{1}), define(1, Constant{1}), Combine{1, Accumulator::add, 0}}},
      {"register r1 is accumulated without a reset",
       {define(0, Constant{1}), Reset{2, -1}, CombineFirst{1, 2, Accumulator::argmax, 0, zero}}},
      {"register r1 keeps a position but is f32",
       {define(0, Constant{1}), Reset{1, -1}, Reset{2, -1}, CombineFirst{2, 1, Accumulator::argmax, 0, zero}}},
      {"register r2 is compared with another precision",
       {define(0, Constant{1}), Reset{2, 0}, Reset{3, -1}, CombineFirst{2, 3, Accumulator::argmax, 0, zero}}},
      {"register r2 is loaded from `a` of another precision", {define(2, Load{0, zero})}},
      {"register r3 is an index but not i64", {define(3, Load{1, zero}), define(0, Load{0, Term::load(3)})}},
      {"register r0 is cast to another precision", {define(1, Constant{1}), define(0, Cast{1, DType::i64})}},
      {"register r0 is computed in a narrow float",
       {define(1, Constant{1}), define(0, Apply{Op::neg, DType::f16, {1, -1, -1}})}},
      {"register r5 is read before it is defined", {define(0, Apply{Op::neg, DType::f32, {5, -1, -1}})}},
      {"`h` is a narrow float, accumulated in memory",
       {define(0, Constant{1}), StoreCombine{2, zero, Accumulator::add, 0}}},
      {"loop variable i is used outside its loop", {define(0, Load{0, i})}},
      {"loop variable i is used outside its loop", {If{{i}, {}}}},
      {"loop variable i is used twice", {loop_of({loop_of({})})}},
      {"loop variable 7 does not exist", {loop_of({}, 7)}},
      {"loop variable i has the extent -1", {loop_of({}, 0, -1)}},
      {"the parallel loop over i has more than definitions beside it",
       {For{0, 4, LoopKind::parallel, {}, 1}, define(0, Constant{1})}},
      {"the parallel loop over i has more than definitions beside it",
       {Reset{0, 0}, For{0, 4, LoopKind::parallel, {}, 1}}},
      {"the parallel loop over i has more than definitions beside it, or no chunk",
       {For{0, 4, LoopKind::parallel, {}}}},
      {"the parallel loop over i may touch in one iteration what another writes",
       {define(0, Load{0, zero}), For{0, 4, LoopKind::parallel, {Store{0, i, 0}}, 1}}},
      {"the parallel loop over i may touch in one iteration what another writes",
       {For{0, 4, LoopKind::parallel, {define(0, Constant{1}), Store{0, zero, 0}}, 1}}},
      {"the parallel loop over i may touch in one iteration what another writes",
       {For{0, 3, LoopKind::parallel, {define(0, Load{0, i + Term::number(1)}), Store{0, i, 0}}, 1}}},
      {"the loop over i is computed in vectors but is not an innermost parallel loop",
       {For{.variable = 0, .extent = 4, .body = {}, .vector = true}}},
      {"buffer 9 does not exist", {define(0, Load{9, zero})}},
      {"buffer -1 does not exist", {define(0, Constant{1}), Store{-1, zero, 0}}},
      {"symbol 4 does not exist", {define(0, Load{0, Term::symbol(4)})}},
      {"`s` is loaded but is not in memory", {define(0, Load{4, zero})}},
      {"`d` is stored but is data", {define(0, Constant{1}), Store{3, zero, 0}}},
      {"`a` is drawn but is not random", {define(2, Constant{1}), define(0, RandomValue{0, zero, 2})}},
  };
  for (const Refusal& row : rows) {
    try {
      verify(module_with(row.body));
      ADD_FAILURE() << "not refused: " << row.phrase;
    } catch (const InternalError& e) {
      EXPECT_NE(std::string(e.what()).find(row.phrase), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("kernel k"), std::string::npos) << "the kernel is printed: " << e.what();
      const Module module = module_with(row.body);
      EXPECT_TRUE(problem(module, module.kernels[0]).value().starts_with(row.phrase)) << row.phrase;
    }
  }
}

}  // namespace
}  // namespace caravan::loop
