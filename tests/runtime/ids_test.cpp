// Ids out of range: those that the host gave, and those that are computed.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include "refusal.h"
#include "this_device.h"

namespace caravan {
namespace {

using Values = std::vector<double>;

TEST(Ids, ThatTheHostGaveAreCheckedBeforeTheRun) {
  auto table = [] { return param("table", Array(parse_shape("3->2"), {1, 3, 5, 2, 4, 6})); };  // the rows 1 2, 3 4, 5 6
  auto data = [](std::vector<double> ids) { return tensor(Array::vector(ids, DType::i32), "ids"); };
  Context ctx(kHere);
  EXPECT_EQ(ctx.eval(gather(table(), data({2, 0}))).values(), (Values{5, 6, 1, 2}));
  expect_refusal<StateError>(
      [&] {
        ctx.compile(observe(gather(table(), data({2, 0, 3}))));
      },
      {"`ids` holds the id 3 at [2]", "ids of input axis 1 of `table` (gather, ", "0..2", "ids_test.cpp:"});
  expect_refusal<StateError>(
      [&] {
        ctx.compile(observe(scatter_add(tensor({1, 2}), data({0, -1}), 4)));
      },
      {"`ids` holds the id -1 at [1]", "0..3"});

  // Slices of data: every batch is looked at.
  Index batch("batch", 2);
  auto batches = [&](double last) {
    return gather(table(), tensor(Array(parse_shape("2|2"), {0, 1, 2, last}, DType::i32), "tokens")[batch]);
  };
  EXPECT_EQ(ctx.eval(batches(0), {{batch, 1}}).values(), (Values{5, 6, 1, 2}));
  expect_refusal<StateError>([&] { ctx.compile(observe(batches(9))); }, {"`tokens` holds the id 9 at [1, 1]"});

  // States, after each write by the host.
  Tensor ids = input("input", {.batch = Extents{}, .input = Extents{}, .output = {2}, .dtype = DType::i32});
  Tensor n = state("n", 0, DType::f32), rows = gather(table(), ids);
  Routine r = ctx.compile(assign(n, n + 1) & observe(rows));
  ctx.write(ids, Array::vector({1, 1}, DType::i32));
  r.run();
  EXPECT_EQ(r.read(rows).values(), (Values{3, 4, 3, 4}));
  ctx.write(ids, Array::vector({1, 3}, DType::i32));
  for (int twice = 0; twice < 2; ++twice)
    expect_refusal<StateError>([&] { r.run(); }, {"`input` holds the id 3 at [1]", "0..2"});
  expect_refusal<StateError>([&] { r.run_steps(3); }, {"`input` holds the id 3"});
  EXPECT_EQ(ctx.read(n).item(), 1) << "nothing has run";
  ctx.write(ids, Array::vector({0, 2}, DType::i32));
  r.run();
  EXPECT_EQ(r.read(rows).values(), (Values{1, 2, 5, 6}));
}

TEST(Ids, ThatAreComputedContributeNothingWhereTheyAreOutOfRange) {
  Tensor table = param("table", Array(parse_shape("3->2"), {1, 3, 5, 2, 4, 6}));             // the rows 1 2, 3 4, 5 6
  Tensor ids = tensor(Array::vector({1, 8, 0}, DType::i32)) - 1, rows = gather(table, ids);  // 0 7 -1
  Context ctx(kHere);
  EXPECT_EQ(ctx.eval(rows).values(), (Values{1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(ctx.eval(grad(sum(rows * rows), table)).values(), (Values{2, 0, 0, 4, 0, 0}));
  EXPECT_EQ(ctx.eval(scatter_add(tensor({10, 20, 30}), ids, 2)).values(), (Values{10, 0}));
  Tensor kept =
      state("kept", {.batch = Extents{}, .input = Extents{}, .output = {3}, .init = zeros(), .dtype = DType::i32});
  Tensor seen = gather(table, kept);
  Routine r = ctx.compile(assign(kept, kept + 2) & observe(seen));  // a state that a program assigned is computed too
  r.run(), r.run(), r.run();
  EXPECT_EQ(r.read(seen).values(), Values(6, 0));
  Tensor again = seen * 1;
  EXPECT_EQ(ctx.eval(again).values(), Values(6, 0)) << "also for a program that meets it later";
  ctx.write(kept, Array::vector({0, 9, 0}, DType::i32));
  expect_refusal<StateError>([&] { ctx.eval(again); }, {"`kept` holds the id 9 at [1]"});
}

}  // namespace
}  // namespace caravan
