// Work is done where it is read.
#include "caravan/optimize/inline_producers.h"

#include <gtest/gtest.h>

#include "pass_table.h"

namespace caravan::optimize {
namespace {

TEST(InlineProducers, BeforeAndAfter) {
  const std::vector<Rewrite> rows = {
      {"pointwise work into its reader", [] { return observe(exp(parameter("a", "3") * 2 + 1).named("y")); }, R"(
mul[o0] += a[o0] * 2   for o0 < 3
add[o0] += mul[o0] + 1   for o0 < 3
y[o0] += exp(add[o0])   for o0 < 3
)",
       R"(
y[o0] += exp(a[o0] * 2 + 1)   for o0 < 3
)"},
      {"a transposition into a product that repeats it",
       [] {
         return observe(
             einsum("ij;jk=>ik", einsum("ij=>ji", parameter("a", "4,3")).named("t"), parameter("b", "4,2")).named("y"));
       },
       R"(
t[j, i] += a[i, j]   for j < 3, i < 4
y[i, k] += t[i, j] * b[j, k]   for i < 3, k < 2, j < 4
)",
       R"(
y[i, k] += a[j, i] * b[j, k]   for i < 3, k < 2, j < 4
)"},
      {"the slice of a batch, read in place",
       [] {
         Index at("at", 3);
         return observe(einsum("b|i=>b|", tensor(Array(parse_shape("3,2|2")), "data")[at]).named("y"));
       },
       R"(
slice at[b0, o0] += data[at, b0, o0]   for b0 < 2, o0 < 2
y[b] += slice at[b, i]   for b < 2, i < 2
)",
       R"(
y[b] += data[at, b, i]   for b < 2, i < 2
)"},
      {"something expensive into its only reader, a sum",
       [] { return observe(sum(exp(parameter("a", "3"))).named("y")); },
       R"(
exp[o0] += exp(a[o0])   for o0 < 3
y += exp[o0]   for o0 < 3
)",
       R"(
y += exp(a[o0])   for o0 < 3
)"},
      {"a number that is computed from numbers, into a loop that repeats it",
       [] { return observe((parameter("a", "3") * (ones_like(parameter("s", "")) / 4).named("n")).named("y")); }, R"(
ones_like += 1
n += ones_like / 4
y[o0] += a[o0] * n   for o0 < 3
)",
       R"(
y[o0] += a[o0] * (f32(1) / 4)   for o0 < 3
)"},
      {"not what a maximum loads anyway: the product before it is then read once, and need not be stored",
       [] {
         Tensor z = (parameter("w", "4->5")(parameter("x", "3|4")).named("h") + parameter("c", "3|5")).named("z");
         return observe(exp(z - einmax("n|c => n|0", z).named("m")).named("y"));
       },
       R"(
h[b0, o0] += w[o0, k0] * x[b0, k0]   for b0 < 3, o0 < 5, k0 < 4
z[b0, o0] += h[b0, o0] + c[b0, o0]   for b0 < 3, o0 < 5
m[n, 0] max= z[n, c]   for n < 3, c < 5
sub[b0, o0] += z[b0, o0] - m[b0, 0]   for b0 < 3, o0 < 5
y[b0, o0] += exp(sub[b0, o0])   for b0 < 3, o0 < 5
)",
       R"(
h[b0, o0] += w[o0, k0] * x[b0, k0]   for b0 < 3, o0 < 5, k0 < 4
z[b0, o0] += h[b0, o0] + c[b0, o0]   for b0 < 3, o0 < 5
m[n, 0] max= z[n, c]   for n < 3, c < 5
y[b0, o0] += exp(z[b0, o0] - m[b0, 0])   for b0 < 3, o0 < 5
)"},
      {"a padded reader: the reader's condition keeps the load in range",
       [] {
         return observe(einsum("o<1+k; k => o", (parameter("x", "4") + 1).named("p"), parameter("w", "3")).named("y"));
       },
       R"(
p[o0] += x[o0] + 1   for o0 < 4
y[o] += p[o + k - 1] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
)",
       R"(
p[o0] += x[o0] + 1   for o0 < 4
y[o] += p[o + k - 1] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
)"},
      {"every second element, read through a padded window: the load is twice what the condition keeps in range",
       [] {
         return observe(einsum("o<1+k; k => o", einsum("2*n => n", parameter("x", "8")).named("p"), parameter("w", "3"))
                            .named("y"));
       },
       R"(
p[n] += x[2*n]   for n < 4
y[o] += p[o + k - 1] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
)",
       R"(
y[o] += x[2*o + 2*k - 2] * w[k]   for o < 4, k < 3 where o + k - 1 >= 0 and 4 - o - k >= 0
)"},
      {"a narrow value is rounded where it was stored",
       [] { return observe(cast(cast(parameter("a", "2"), DType::f16) * 3, DType::f32).named("y")); }, R"(
cast f16[o0] += f16(a[o0])   for o0 < 2
mul[o0] += cast f16[o0] * 3   for o0 < 2
y[o0] += f32(mul[o0])   for o0 < 2
)",
       R"(
y[o0] += f32(f16(f16(a[o0]) * 3))   for o0 < 2
)"},
  };
  expect_rewritten(inline_producers, rows);
}

TEST(InlineProducers, MustRefuse) {
  const std::vector<Refusal> hand_rows = {
      {"a reduction into a loop that repeats it",
       [] { return observe(parameter("b", "3,2") * einsum("i,j=>i,0", parameter("a", "3,4"))); }},
      {"a reduction, even into a reader that does not",
       [] { return observe(exp(einsum("ij=>i", parameter("a", "3,4")))); }},
      {"pointwise work into a loop that repeats it",
       [] { return observe(einsum("ij;jk=>ik", exp(parameter("a", "3,4")), parameter("b", "4,2"))); }},
      {"something expensive with two readers",
       [] {
         Tensor e = exp(parameter("a", "3"));
         return observe({einsum("i=>", e), einmax("i=>", e)});
       }},
      {"something expensive that is observed too",
       [] {
         Tensor e = exp(parameter("a", "3"));
         return observe({sum(e), e});
       }},
      {"a padded producer, which would need a guarded load",
       [] { return observe(exp(einsum("i^1 => 1^i", parameter("a", "3")))); }},
      {"a producer with a condition",
       [] { return observe(exp(einsum("ij=>ij", parameter("a", "3,3"), {{"j <= i"}}))); }},
      {"a producer that reads through an index tensor",
       [] {
         return observe(exp(gather(parameter("t", "4->2"), tensor(Array::vector({1, 3}, DType::i32)))));
       }},
      {"an index tensor of its reader",
       [] { return observe(gather(parameter("t", "4->2"), cast(parameter("ids", "3"), DType::i32))); }},
      {"an argmax", [] { return observe(cast(argmax("ij=>i", parameter("a", "3,2")), DType::f32)); }},
      {"random bits with two readers",
       [] {
         Tensor bits = cast(random_bits("s", {.output = {3}, .step = 0}), DType::f32);
         return observe({sum(bits), largest(bits)});
       }},
      {"a map that the verifier could not prove: an index of five padded windows",
       [] {
         Tensor x =
             einsum("i&j&k&l&m => i, j, k, l, m", parameter("x", "32"), {{"i", 2}, {"j", 2}, {"k", 2}, {"l", 2}});
         return observe(einsum("i<1+p, j<1+q, k<1+r, l<1+s, m<1+t => i, j, k, l, m", x,
                               {{"p", 3}, {"q", 3}, {"r", 3}, {"s", 3}, {"t", 3}}));
       }},
      {"a merged axis, which its reader would have to divide",
       [] { return observe(exp(einsum("i, j => i&j", parameter("a", "3,2")))); }},
      {"an axis written backwards", [] { return observe(exp(einsum("i => -i", parameter("a", "3")))); }},
  };
  expect_refused(inline_producers, hand_rows);
}

TEST(InlineProducers, BodiesStayBounded) {
  Tensor x = parameter("x", "4");
  for (int k = 0; k < 300; ++k) x = x * 1.5 + k;
  const ir::Program after = inline_producers(to_ir(observe(x)));
  EXPECT_GT(after.accumulations.size(), 2u);
  for (const ir::Accumulation& a : after.accumulations) EXPECT_LE(a.body.entries().size(), kLongestBody);
}

}  // namespace
}  // namespace caravan::optimize
