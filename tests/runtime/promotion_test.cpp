// The precision of what is computed from tensors of others, and conversions.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include "refusal.h"
#include "this_device.h"

namespace caravan {
namespace {

using Values = std::vector<double>;

TEST(Precision, PromotionSeenThroughTensors) {
  auto of = [](DType dtype) { return tensor(Array::vector({1, 0}, dtype)); };
  Tensor b = of(DType::boolean), u8 = of(DType::u8), i32 = of(DType::i32), i64 = of(DType::i64), f16 = of(DType::f16),
         bf16 = of(DType::bf16), f32 = of(DType::f32), f64 = of(DType::f64);
  struct Row {
    const char* text;
    Tensor value;
    DType dtype;
  };
  const Row rows[] = {
      {"i32 + i32", i32 + i32, DType::i32},
      {"i32 / i32", i32 / i32, DType::f32},
      {"u8 + i32", u8 + i32, DType::i32},
      {"i32 + i64", i32 + i64, DType::i64},
      {"i64 + f16", i64 + f16, DType::f16},
      {"f16 + bf16", f16 + bf16, DType::f32},
      {"f32 * f64", f32 * f64, DType::f64},
      {"exp(i32)", exp(i32), DType::f32},
      {"exp(f16)", exp(f16), DType::f16},
      {"b + b", b + b, DType::i32},
      {"b && b", b && b, DType::boolean},
      {"i32 < f32", i32 < f32, DType::boolean},
      {"sum(b)", sum(b), DType::i32},
      {"sum(u8)", sum(u8), DType::i32},
      {"sum(i64)", sum(i64), DType::i64},
      {"sum(f16)", sum(f16), DType::f16},
      {"largest(u8)", largest(u8), DType::u8},
      {"product(b)", product(b), DType::i32},
      {"i32 + 1", i32 + 1, DType::i32},
      {"i32 + 1.5", i32 + 1.5, DType::f32},
      {"i32 + 1.0", i32 + 1.0, DType::f32},
      {"f16 * 2", f16 * 2, DType::f16},
      {"f16 * 0.5", f16 * 0.5, DType::f16},
      {"f64 * 0.5", f64 * 0.5, DType::f64},
      {"1 + 0.5 * f16", (Operand(1) + 0.5) * f16, DType::f16},
      {"where(b, 1, f32)", where(b, 1, f32), DType::f32},
      {"where(b, i32, f32)", where(b, i32, f32), DType::f32},
      {"-b", -b, DType::i32},
      {"cast", cast(f32, DType::u8), DType::u8},
      {"argmax", argmax("i=>", f32), argmax("i=>", f64).dtype()},
      {"einsum b", einsum("i;i=>", b, b), DType::i32},
      {"any", einany("i=>", f32), DType::boolean},
      {"relu(i32)", relu(i32), DType::i32},
      {"floor(f16)", floor(f16), DType::f16},
      {"iota", iota(3), DType::i32},
      {"f32 == f32", f32 == f32, DType::boolean},
      {"bf16 + 1", bf16 + 1, DType::bf16},
  };
  Context ctx(kHere);
  for (const Row& row : rows) {
    EXPECT_EQ(row.value.dtype(), row.dtype) << row.text << " is " << name(row.value.dtype());
    EXPECT_NO_THROW(ctx.eval(row.value)) << row.text;
  }
}

TEST(Precision, Conversions) {
  Context ctx(kHere);
  Tensor x = tensor({-1.5, 0.0, 2.5, 300.0});
  EXPECT_EQ(ctx.eval(cast(x, DType::i32)).values(), (Values{-1, 0, 2, 300}));
  EXPECT_EQ(ctx.eval(cast(x, DType::u8)).values(), (Values{0, 0, 2, 255}));
  EXPECT_EQ(ctx.eval(cast(x, DType::boolean)).values(), (Values{1, 0, 1, 1}));
  EXPECT_EQ(ctx.eval(tensor(Array::vector({7, 1}, DType::i32)) / 2).values(), (Values{3.5, 0.5}));
  EXPECT_EQ(ctx.eval(cast(tensor({2049.0}), DType::f16)).values(), (Values{2048}));
  expect_refusal<DTypeError>([] { number(300, DType::u8); }, {"300", "u8", "255"});
  expect_refusal<DTypeError>([] { number(1e40, DType::f32); }, {"f32"});
  expect_refusal<DTypeError>([] { gather(param("t", {.input = {3}, .output = {2}}), tensor({1.0})); },
                             {"gather", "f32", "integers"});
  EXPECT_EQ(ctx.eval(tensor(Array::vector({1, 2}, DType::i32))).dtype(), DType::i32);
  EXPECT_EQ(ctx.eval(x > 0).dtype(), DType::boolean);
}

}  // namespace
}  // namespace caravan
