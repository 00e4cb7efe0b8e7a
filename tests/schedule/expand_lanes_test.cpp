// Vector and unrolled loops around other loops, written down as the loops, locals and vectors that run.
#include "caravan/schedule/expand_lanes.h"

#include <gtest/gtest.h>

#include "caravan/codegen/c.h"
#include "caravan/ops/table.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

using namespace loop;

enum : Variable { i, o, row_ };
enum : ir::BufferId { x, w, y, at };

Term index(std::initializer_list<std::pair<Variable, int64_t>> parts) {
  Term out;
  for (auto [variable, step] : parts) out = out + Term::iterator(variable, step);
  return out;
}
Statement over(Variable variable, int64_t extent, LoopKind kind, Block body) {
  return For{variable, extent, kind, std::move(body)};
}
Statement load(Register to, ir::BufferId from, Term offset) { return Define{to, Load{from, std::move(offset)}}; }
Statement mul(Register to, Register a, Register b) { return Define{to, Apply{Op::mul, DType::f32, {a, b, -1}}}; }
Statement add(Register to, Register value) { return Combine{to, Accumulator::add, value}; }

// A kernel over f32 buffers x, w, y and i64 `at`, with registers of f32 but for r9, of i64.
Module kernel(Block body) {
  Module out;
  for (const char* name : {"x", "w", "y", "at"})
    out.buffers.push_back({name, parse_shape("4096"), name[0] == 'a' ? DType::i64 : DType::f32, ir::StateLeaf{}, {}});
  std::vector<RegisterType> registers(10, DType::f32);
  registers[9] = DType::i64;
  out.kernels.push_back({"k", {}, {"i", "o", "row"}, registers, std::move(body)});
  verify(out);
  return out;
}
std::string expanded(const Module& module, const Target& target = tested_target()) {
  const Module out = expand_lanes(module, target);
  verify(out);
  return "\n" + to_string(out);
}
Module product() {
  return kernel(
      {over(o, 16, LoopKind::vector,
            {Reset{0, 0},
             over(i, 100, LoopKind::serial,
                  {load(1, w, index({{i, 16}, {o, 1}})), load(2, x, index({{i, 1}})), mul(3, 1, 2), add(0, 3)}),
             Store{y, index({{o, 1}}), 0}})});
}

TEST(ExpandLanes, SumsBecomeVectors) {
  EXPECT_EQ(expanded(product()), R"(
kernel k
  local sum:f32[16] in registers
  for o < 16 as vectors:
    r10:f32 = 0
    sum[o] = r10
  for i < 100:
    for o_vector < 2 written out:
      r1:f32x8 = w[16*i + 8*o_vector]
      r2:f32 = x[i]
      r3:f32x8 = mul(r1, r2)
      sum[8*o_vector] += r3
  for o < 16 as vectors:
    r11:f32 = sum[o]
    y[o] = r11
)");
}
TEST(ExpandLanes, PlainCHasNoVectors) {
  EXPECT_EQ(expanded(product(), plain_c()), R"(
kernel k
  local sum:f32[16] in registers
  for o < 16 as vectors:
    r10:f32 = 0
    sum[o] = r10
  for i < 100:
    for o < 16 as vectors:
      r1:f32 = w[16*i + o]
      r2:f32 = x[i]
      r3:f32 = mul(r1, r2)
      sum[o] += r3
  for o < 16 as vectors:
    r11:f32 = sum[o]
    y[o] = r11
)");
}
TEST(ExpandLanes, RowsAreTheOuterLanesAndOneVectorNeedsNoLoop) {
  const Module rows = kernel({over(row_, 4, LoopKind::unrolled,
                                   {over(o, 8, LoopKind::vector,
                                         {Reset{0, 0},
                                          over(i, 9, LoopKind::serial,
                                               {load(1, w, index({{i, 8}, {o, 1}})),
                                                load(2, x, index({{row_, 9}, {i, 1}})), mul(3, 1, 2), add(0, 3)}),
                                          Store{y, index({{row_, 8}, {o, 1}}), 0}})})});
  EXPECT_EQ(expanded(rows), R"(
kernel k
  local sum:f32[32] in registers
  for row < 4 written out:
    for o < 8 as vectors:
      r10:f32 = 0
      sum[o + 8*row] = r10
  for i < 9:
    for row < 4 written out:
      r1:f32x8 = w[8*i]
      r2:f32 = x[i + 9*row]
      r3:f32x8 = mul(r1, r2)
      sum[8*row] += r3
  for row < 4 written out:
    for o < 8 as vectors:
      r11:f32 = sum[o + 8*row]
      y[o + 8*row] = r11
)");
}
TEST(ExpandLanes, ValuesAndNumbersReachTheRunsBehindALoop) {
  const Module values = kernel(
      {over(o, 4, LoopKind::vector,
            {load(1, x, index({{o, 1}})), Define{2, Constant{3}}, Reset{0, 1},
             over(i, 5, LoopKind::serial, {load(3, w, index({{i, 4}, {o, 1}})), Combine{0, Accumulator::max, 3}}),
             mul(4, 1, 2), mul(5, 4, 0), Store{y, index({{o, 1}}), 5}})});
  EXPECT_EQ(expanded(values), R"(
kernel k
  local max:f32[4] in registers
  local value:f32[4] in registers
  for o < 4 as vectors:
    r1:f32 = x[o]
    value[o] = r1
    r2:f32 = 3
    r10:f32 = 1
    max[o] = r10
  for i < 5:
    for o < 4 as vectors:
      r3:f32 = w[4*i + o]
      max[o] max= r3
  for o < 4 as vectors:
    r11:f32 = value[o]
    r12:f32 = 3
    r4:f32 = mul(r11, r12)
    r13:f32 = max[o]
    r5:f32 = mul(r4, r13)
    y[o] = r5
)");
}
TEST(ExpandLanes, ATotalIsReadAgainAfterItHasGrown) {
  const Module grows =
      kernel({over(o, 4, LoopKind::vector,
                   {Reset{0, 0}, over(i, 5, LoopKind::serial, {load(3, w, index({{i, 4}, {o, 1}})), add(0, 3)}),
                    load(1, x, index({{o, 1}})), Store{y, index({{o, 2}}), 0}, add(0, 1),
                    Store{y, index({{o, 2}}) + Term::number(1), 0}})});
  const std::string text = expanded(grows);
  EXPECT_NE(text.find(R"(
    r11:f32 = sum[o]
    y[2*o] = r11
    sum[o] += r1
    r12:f32 = sum[o]
    y[2*o + 1] = r12
)"),
            text.npos)
      << text;
  const std::string c = codegen::to_c(expand_lanes(grows, tested_target()));
  EXPECT_NE(c.find("const float r11 = sum[o];"), c.npos) << c;  // before it grows
}
TEST(ExpandLanes, ThePlaceOfTheFirstWinnerIsKeptForEachLane) {
  const Module winners = kernel(
      {over(o, 4, LoopKind::vector,
            {Reset{0, 0}, Reset{9, -1},
             over(i, 5, LoopKind::serial,
                  {load(3, w, index({{i, 4}, {o, 1}})), CombineFirst{0, 9, Accumulator::argmax, 3, index({{i, 1}})}}),
             Store{at, index({{o, 1}}), 9}})});
  const std::string text = expanded(winners);
  EXPECT_NE(text.find("local best:f32[4] in registers\n  local position:i64[4] in registers"), text.npos) << text;
  EXPECT_NE(text.find("position[o] argmax= r3 at i"), text.npos) << text;
}
TEST(ExpandLanes, LanesThatAreAddedUpAreWrittenOut) {
  const Module total = kernel(
      {Reset{0, 0},
       over(o, 8, LoopKind::vector,
            {Reset{4, 0}, over(i, 5, LoopKind::serial, {load(3, w, index({{i, 8}, {o, 1}})), add(4, 3)}), add(0, 4)}),
       Store{y, {}, 0}});
  const std::string text = expanded(total);
  EXPECT_NE(text.find(R"(
  for o < 8 written out:
    r11:f32 = sum[o]
    r0 += r11
)"),
            text.npos)
      << text;
}
TEST(ExpandLanes, LeavesOtherLoopsAlone) {
  const Module plain =
      kernel({over(o, 64, LoopKind::vector, {load(1, x, index({{o, 1}})), Store{y, index({{o, 1}}), 1}}),
              over(i, 3, LoopKind::serial, {load(2, x, index({{i, 1}})), Store{w, index({{i, 1}}), 2}})});
  EXPECT_EQ(expand_lanes(plain, tested_target()).kernels, plain.kernels);
}

TEST(Verify, VectorsStandOnlyWhereTheyCan) {
  auto problem_of = [](Block body, int wide) {
    Module module = kernel({});
    module.kernels[0].registers[size_t(wide)].width = 4;
    module.kernels[0].body = std::move(body);
    return problem(module, module.kernels[0]).value_or("");
  };
  EXPECT_EQ(problem_of({load(1, x, {}), Store{y, {}, 1}}, 1), "");
  EXPECT_NE(problem_of({Define{1, Constant{1}}}, 1).find("a vector where a scalar must be"), std::string::npos);
  EXPECT_NE(problem_of({Reset{0, 0}, load(1, x, {}), add(0, 1)}, 1).find("is given a vector of another width"),
            std::string::npos);
  EXPECT_NE(problem_of({load(1, x, {}), mul(2, 1, 1)}, 1).find("another width"), std::string::npos);
  EXPECT_NE(problem_of({Define{1, Load{Memory::local(0), {}}}}, 2).find("local 0 does not exist"), std::string::npos);
}

}  // namespace
}  // namespace caravan::schedule
