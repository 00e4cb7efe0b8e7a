// Sums of parts become writes to ranges of one buffer.
#include "caravan/optimize/join_parts.h"

#include <gtest/gtest.h>

#include <bit>

#include "caravan/optimize/split_sums.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

TEST(JoinParts, BeforeAndAfter) {
  const std::vector<Rewrite> rows = {
      {"a stack",
       [] {
         return observe(stack({exp(parameter("a", "3")).named("x"), parameter("b", "3")}).named("y"));
       },
       R"(
x[o0] += exp(a[o0])   for o0 < 3
stack[part0, o0] += x[o0]   for o0 < 3, part0 < 1
stack.1[part1 + 1, o0] += b[o0]   for o0 < 3, part1 < 1
y[o0, o1] += stack[o0, o1] + stack.1[o0, o1]   for o0 < 2, o1 < 3
)",
       R"(
x[o0] += exp(a[o0])   for o0 < 3
y[part0, o0] += x[o0] + 0   for o0 < 3, part0 < 1
y[part1 + 1, o0] += b[o0] + 0   for o0 < 3, part1 < 1
)"},
      {"a concatenation",
       [] { return observe(concat("i; j => i^j", parameter("a", "2"), parameter("b", "3")).named("y")); }, R"(
concat[i] += a[i]   for i < 2
concat.1[j + 2] += b[j]   for j < 3
y[o0] += concat[o0] + concat.1[o0]   for o0 < 5
)",
       R"(
y[i] += a[i] + 0   for i < 2
y[j + 2] += b[j] + 0   for j < 3
)"},
      {"sums, which begin with 0",
       [] {
         return observe(stack({einsum("ij => i", parameter("a", "3,2")).named("x"), parameter("b", "3")}).named("y"));
       },
       R"(
x[i] += a[i, j]   for i < 3, j < 2
stack[part0, o0] += x[o0]   for o0 < 3, part0 < 1
stack.1[part1 + 1, o0] += b[o0]   for o0 < 3, part1 < 1
y[o0, o1] += stack[o0, o1] + stack.1[o0, o1]   for o0 < 2, o1 < 3
)",
       R"(
x[i] += a[i, j]   for i < 3, j < 2
y[part0, o0] += x[o0] + 0   for o0 < 3, part0 < 1
y[part1 + 1, o0] += b[o0] + 0   for o0 < 3, part1 < 1
)"},
      {"the gradient of slices, one of which is not used, beside another use",
       [] {
         Tensor x = parameter("x", "3,2"), c = parameter("c", "2");
         auto row = [&](int k) { return einsum(spec(std::to_string(k) + ", j => j"), x); };
         return observe(grad(dot(row(0), c) + dot(row(2), exp(c)) + sum(square(x)), x).named("dx"));
       },
       R"(
ones_like += 1
d sum += ones_like
d square[o0, o1] += d sum   for o0 < 3, o1 < 2
d x[o0, o1] += d square[o0, o1] * 2 * x[o0, o1]   for o0 < 3, o1 < 2
exp[o0] += exp(c[o0])   for o0 < 2
d add += ones_like
d dot += d add
d einsum[o0] += d dot * exp[o0]   for o0 < 2
d x.1[2, j] += d einsum[j]   for j < 2
d dot.1 += d add
d einsum.1[o0] += d dot.1 * c[o0]   for o0 < 2
d x.2[0, j] += d einsum.1[j]   for j < 2
dx[o0, o1] += d x[o0, o1] + d x.1[o0, o1] + d x.2[o0, o1]   for o0 < 3, o1 < 2
)",
       R"(
ones_like += 1
d sum += ones_like
d square[o0, o1] += d sum   for o0 < 3, o1 < 2
d x[o0, o1] += d square[o0, o1] * 2 * x[o0, o1]   for o0 < 3, o1 < 2
exp[o0] += exp(c[o0])   for o0 < 2
d add += ones_like
d dot += d add
d einsum[o0] += d dot * exp[o0]   for o0 < 2
dx.parts[2, j] += d einsum[j] + 0   for j < 2
d dot.1 += d add
d einsum.1[o0] += d dot.1 * c[o0]   for o0 < 2
dx.parts[0, j] += d einsum.1[j] + 0   for j < 2
dx.parts[o0 + 1, o1] += 0   for o0 < 1, o1 < 2
dx[o0, o1] += d x[o0, o1] + dx.parts[o0, o1]   for o0 < 3, o1 < 2
)"},
  };
  expect_rewritten(join_parts, rows);
}

TEST(JoinParts, MustRefuse) {
  const std::vector<Refusal> hand_rows = {
      {"a part that something else reads",
       [] {
         Tensor a = einsum("i => i^3", parameter("a", "2")), b = einsum("i => 2^i", parameter("b", "3"));
         return observe({a, a + b});
       }},
      {"two whole tensors, and the parts apart from each other: another order of sums",
       [] {
         Tensor a = einsum("i => i^3", parameter("a", "2")), b = einsum("i => 2^i", parameter("b", "3")),
                x = parameter("x", "5"), y = parameter("y", "5");
         return observe(grad(dot(a, x) + dot(y, y) + dot(b, x) + dot(x, y), x));
       }},
      {"ranges that overlap",
       [] {
         Tensor x = parameter("x", "4"), c = parameter("c", "3");
         return observe(grad(dot(einsum("o^1 => o", x), c) + dot(einsum("1^o => o", x), c), x));
       }},
      {"whole tensors", [] { return observe(parameter("a", "3") + parameter("b", "3")); }},
      {"a product of parts",
       [] { return observe(einsum("i => i^3", parameter("a", "2")) * einsum("i => 2^i", parameter("b", "3"))); }},
      {"narrow sums, which may be rounded to -0",
       [] {
         return observe(einsum("i, j => i^3", cast(parameter("a", "2,4"), DType::f16)) +
                        einsum("i => 2^i", cast(parameter("b", "3"), DType::f16)));
       }},
  };
  expect_refused(join_parts, hand_rows);
}

// For a GPU every sum may fuse products with additions, also one that has no products.
TEST(JoinParts, JoinsSumsThatMayBeFused) {
  const Program program = observe(stack({parameter("a", "3"), parameter("b", "3")}).named("y"));
  const ir::Program joined = join_parts(split_sums(prepared(program), gpu_target()));
  EXPECT_EQ(joined.accumulations.size(), 2u) << to_string(joined);
}

TEST(JoinParts, KeepsTheBits) {  // -0 in a part is 0 in the sum; f16 rounds to -0 when it is stored
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32}) {
    Tensor a = cast(tensor(Array(parse_shape("3"), {-0.0, -1e-12, 3}, DType::f64)), dtype),
           b = cast(tensor(Array(parse_shape("3"), {1, -0.0, -1e-12}, DType::f64)), dtype);
    Tensor s = stack({a, b, -a}), total = stack({sum(a * b), sum(a)});
    const Program p = observe({s, total, concat("i; j => i^j", a, b)});
    Context with({.device = "cpu"}), without({.device = "cpu", .passes_off = {"join_parts"}});
    const Routine r = with.compile(p), q = without.compile(p);
    Routine(r).run(), Routine(q).run();
    for (const Tensor& t : p.observed_as()) {
      const std::vector<double> x = r.read(t).values(), y = q.read(t).values();
      for (size_t e = 0; e < x.size(); ++e)
        EXPECT_EQ(std::bit_cast<uint64_t>(x[e]), std::bit_cast<uint64_t>(y[e]))
            << name(dtype) << " " << x[e] << " and " << y[e];
    }
  }
}

}  // namespace
}  // namespace caravan::optimize
