// The position of a max is stored as the number of an element in its window.
#include "caravan/optimize/narrow_positions.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "caravan/optimize/inline_producers.h"
#include "caravan/optimize/merge_equal.h"
#include "caravan/optimize/solve_writes.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

ir::Program before(const Program& program) { return merge_equal(inline_producers(solve_writes(prepared(program)))); }
const ir::Buffer& buffer(const ir::Program& program, const std::string& name) {
  return *std::ranges::find(program.buffers, name, &ir::Buffer::name);
}
// The gradient of a max by x.
Program gradient(const std::string& spec, const char* shape, const char* result, int64_t k) {
  const Tensor x = parameter("x", shape), y = einmax(caravan::spec(spec), x, {{"k", k}}).named("y");
  return observe(grad(dot(parameter("d", result), y), x).named("dx"));
}

TEST(NarrowPositions, BeforeAndAfter) {
  struct Row {
    const char *spec, *shape, *result;
    int64_t k;
    DType dtype;
    const char* after;
  };
  const Row rows[] = {
      // a pool
      {"2*o + k => o", "6", "3", 2, DType::u8, R"(
d y[o0] += f32(1) * d[o0]   for o0 < 3
argmax[o] argmax= x[2*o + k]   for o < 3, k < 2 counting k
dx[2*o + k] += where(places in windows of argmax 5[k] == i32(argmax[o]), d y[o], 0)   for o < 3, k < 2
)"},
      // windows that overlap: the gradient has the iterators of x
      {"b, o + k => b, o", "2,6", "2,4", 3, DType::u8, R"(
d y[o0, o1] += f32(1) * d[o0, o1]   for o0 < 2, o1 < 4
argmax[b, o] argmax= x[b, o + k]   for b < 2, o < 4, k < 3 counting k
dx[b, o_q] += where(places in windows of argmax 6[k] == i32(argmax[b, o_q - k]), d y[b, o_q - k], 0)   for k < 3, b < 2, o_q < 6 where o_q - k >= 0 and k - o_q + 3 >= 0
)"},
      // all elements of a row
      {"b, k => b", "2,5", "2", 5, DType::u8, R"(
d y[o0] += f32(1) * d[o0]   for o0 < 2
argmax[b] argmax= x[b, k]   for b < 2, k < 5 counting k
dx[b, k] += where(places in windows of argmax 5[k] == i32(argmax[b]), d y[b], 0)   for b < 2, k < 5
)"},
      // more than a byte can count
      {"b, k => b", "2,300", "2", 300, DType::i32, R"(
d y[o0] += f32(1) * d[o0]   for o0 < 2
argmax[b] argmax= x[b, k]   for b < 2, k < 300 counting k
dx[b, k] += where(places in windows of argmax 5[k] == argmax[b], d y[b], 0)   for b < 2, k < 300
)"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.spec);
    const ir::Program given = before(gradient(row.spec, row.shape, row.result, row.k));
    const ir::Program after = narrow_positions(given);
    ir::verify(after);
    EXPECT_EQ(accumulations(after), trimmed(row.after)) << accumulations(given);
    EXPECT_EQ(name(buffer(after, "argmax").dtype), name(row.dtype));
    EXPECT_EQ(to_string(narrow_positions(after)), to_string(after)) << "a second time";
  }
}

TEST(NarrowPositions, MustRefuse) {
  const std::vector<Refusal> rows = {
      {"a position in a window that is observed",
       [] {
         return observe(argmax("2*o + k => o", parameter("x", "6"), {{"k", 2}}));
       }},
      {"a position that a gradient compares, and that is observed",
       [] {
         const Tensor x = parameter("x", "5"), y = einmax("k => ", x).named("y");
         return observe(argmax("k => ", x)) & observe(grad(y, x).named("dx"));
       }},
      {"a position that is assigned",
       [] {
         const Tensor n = state("n", {.output = {3}, .init = zeros(), .dtype = DType::i64});
         return assign(n, argmax("2*o + k => o", parameter("x", "6"), {{"k", 2}}));
       }},
      {"a position that is compared with a number",
       [] { return observe(argmax("b, k => b", parameter("x", "2,5")) == 3); }},
      {"a position that is computed with",
       [] { return observe(cast(argmax("b, k => b", parameter("x", "2,5")), DType::f32) * 2); }},
  };
  for (const Refusal& row : rows) {
    const ir::Program given = before(row.program());
    EXPECT_EQ(to_string(narrow_positions(given)), to_string(given)) << row.reason;
  }
}

}  // namespace
}  // namespace caravan::optimize
