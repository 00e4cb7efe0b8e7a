// The rules of precision (caravan/ops/dtype.h) as a user meets them, on every device: rows of an expression and its
// values.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "caravan/jit/jit.h"
#include "caravan/tensor/graph.h"
#include "programs.h"
#include "programs/in_double.h"

namespace caravan {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor of(DType dtype, const Values& values) { return tensor(Array::vector(values, dtype)); }
Tensor bytes_of(const Values& values) { return of(DType::u8, values); }
Tensor ints_of(const Values& values) { return of(DType::i32, values); }
Tensor bools_of(const Values& values) { return of(DType::boolean, values); }

std::string text_of(const Values& values) {
  std::string out;
  for (double v : values) out += (out.empty() ? "" : ", ") + std::to_string(v);
  return out;
}
// To 1e-6 of the value: f32 on one device, double on the other.
void expect_values(const Array& actual, const Values& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), int64_t(expected.size())) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double a = actual.at(int64_t(i)), e = expected[i];
    EXPECT_TRUE(a == e || (std::isnan(a) && std::isnan(e)) || std::abs(a - e) <= 1e-6 * std::abs(e))
        << what << ": " << text_of(actual.values()) << ", not " << text_of(expected);
  }
}

struct Narrowing {
  const char* text;
  Tensor tensor;
  DType dtype;
  Values expected;
};

void expect_rows(const std::vector<Narrowing>& rows) {
  for (const char* device : {"interp", "cpu"}) {
    Context ctx({.device = device});
    std::vector<Tensor> tensors;
    for (const Narrowing& row : rows) tensors.push_back(row.tensor);
    const std::vector<Array> values = ctx.eval(tensors);
    for (size_t k = 0; k < rows.size(); ++k) {
      EXPECT_EQ(name(rows[k].tensor.dtype()), name(rows[k].dtype)) << rows[k].text;
      expect_values(values[k], rows[k].expected, std::string(rows[k].text) + " on " + device);
    }
  }
}

TEST(Precision, AWholeNumberWrittenAsADoubleMakesIntegersFloats) {
  const Tensor u = bytes_of({0, 200, 255}), b = bools_of({1, 0, 1}), i = ints_of({0, 50000, -50000});
  expect_rows({
      {"(u - 128.0) / 128.0", (u - 128.0) / 128.0, DType::f32, {-1, 0.5625, 0.9921875}},
      {"u * 2.0", u * 2.0, DType::f32, {0, 400, 510}},
      {"u * 2", u * 2, DType::u8, {0, 144, 254}},
      {"1.0 - u", 1.0 - u, DType::f32, {1, -199, -254}},
      {"where(b, u, -1.0)", where(b, u, -1.0), DType::f32, {0, -1, 255}},
      {"max(u, -1.0)", max(u, -1.0), DType::f32, {0, 200, 255}},
      {"min(u, 300.0)", min(u, 300.0), DType::f32, {0, 200, 255}},
      {"clamp(u, -5.0, 300.0)", clamp(u, -5.0, 300.0), DType::f32, {0, 200, 255}},
      {"mod(u, 300.0)", mod(u, 300.0), DType::f32, {0, 200, 255}},
      {"fma(u, 2.0, 1.0)", fma(u, 2.0, 1.0), DType::f32, {1, 401, 511}},
      {"i * 1e6", i * 1e6, DType::f32, {0, 5e10, -5e10}},
      {"iota(5) * 1e9", iota(5) * 1e9, DType::f32, {0, 1e9, 2e9, 3e9, 4e9}},
      {"b * 2.0", b * 2.0, DType::f32, {2, 0, 2}},
      {"mul over a spec", mul("i; => i", u, 2.0), DType::f32, {0, 400, 510}},
      {"u == 255.0", u == 255.0, DType::boolean, {0, 0, 1}},
      {"u < 300.0", u < 300.0, DType::boolean, {1, 1, 1}},
      {"u > -1.0", u > -1.0, DType::boolean, {1, 1, 1}},
      {"i > 49999.5", i > 49999.5, DType::boolean, {0, 1, 0}},
      {"i < 1e30", i < 1e30, DType::boolean, {1, 1, 1}},
  });
}

TEST(Precision, SumsOfProductsAreComputedInTheirResult) {
  const Tensor u = bytes_of({0, 1, 128, 255}), i = ints_of({65536, 1, 2, 65536}), f = of(DType::f32, {1, 1, 1, 1});
  expect_rows({
      {"dot(u, u)", dot(u, u), DType::i32, {81410}},
      {"einsum", einsum("i; i =>", u, u), DType::i32, {81410}},
      {"outer_sum", outer_sum("i; j => i", u, u), DType::i32, {384, 388, 896, 1404}},
      {"three factors", einsum("i; i; i =>", u, u, u), DType::i32, {1 + 128 * 128 * 128 + 255 * 255 * 255}},
      {"with a float", einsum("i; i; i =>", u, u, f), DType::f32, {81410}},
      {"i32 with a float", einsum("i; i; i =>", i, i, f), DType::f32, {8589934597.0}},
      {"products of sums", einprod("i => ", bytes_of({200, 200})), DType::i32, {40000}},
      {"a user's own product", sum(u * u), DType::i32, {2}},
      {"inlined", dot(u * u, u), DType::i32, {1 + 255}},
      {"of bool", dot(u > 1, u > 1), DType::i32, {2}},
      {"i32 wraps", dot(i, i), DType::i32, {5}},
  });
}

TEST(Precision, TheLargestOfNothingIsTheLowestValue) {
  const Tensor b = bools_of({0, 1, 0}), no = bools_of({0, 0, 0}), u = bytes_of({3, 1, 2});
  const Tensor rows = tensor(Array(parse_shape("3,3"), Values(9, 1), DType::boolean));
  expect_rows({
      {"largest(no)", largest(no), DType::boolean, {0}},
      {"largest(b)", largest(b), DType::boolean, {1}},
      {"smallest(b)", smallest(b), DType::boolean, {0}},
      {"smallest(!no)", smallest(!no), DType::boolean, {1}},
      {"largest(u > 300.0)", largest(u > 300.0), DType::boolean, {0}},
      {"einmax of bool", einmax("i => i", b), DType::boolean, {0, 1, 0}},
      {"no bool", einmax("i, j => i", rows, {"j >= i + 3"}), DType::boolean, {0, 0, 0}},
      {"no bool, min", einmin("i, j => i", rows, {"j >= i + 3"}), DType::boolean, {1, 1, 1}},
      {"no byte", einmax("i, j => i", cast(rows, DType::u8), {"j >= i + 3"}), DType::u8, {0, 0, 0}},
      {"no byte, min", einmin("i, j => i", cast(rows, DType::u8), {"j >= i + 3"}), DType::u8, {255, 255, 255}},
      {"no i32",
       einmax("i, j => i", cast(rows, DType::i32), {"j >= i + 3"}),
       DType::i32,
       {-2147483648.0, -2147483648.0, -2147483648.0}},
      {"no f32", einmax("i, j => i", cast(rows, DType::f32), {"j >= i + 3"}), DType::f32, {-kInf, -kInf, -kInf}},
  });
}

TEST(Precision, MovingElementsKeepsTheirs) {
  const Tensor b = bools_of({0, 1, 1}), u = bytes_of({3, 200, 255});
  const Tensor grid = tensor(Array(parse_shape("2|3"), {1, 0, 0, 1, 1, 0}, DType::boolean));
  expect_rows({
      {"the same", einsum("i => i", b), DType::boolean, {0, 1, 1}},
      {"transposed", einsum("b | i => i, b", grid), DType::boolean, {1, 1, 0, 1, 0, 0}},
      {"by row variables", einsum("... | ... => ... | ...", u), DType::u8, {3, 200, 255}},
      {"merged", einsum("b | i => b&i", grid), DType::boolean, {1, 0, 0, 1, 1, 0}},
      {"reversed", einsum("-i => i", u), DType::u8, {255, 200, 3}},
      {"repeated", einsum("i => i, n", u, {{"n", 2}}), DType::u8, {3, 3, 200, 200, 255, 255}},
      {"padded", einsum("i => 1^i", u), DType::u8, {0, 3, 200, 255}},
      {"without the first", einsum("1^i => i", u), DType::u8, {200, 255}},
      {"windows", einsum("i+k => i, k", u, {{"k", 2}}), DType::u8, {3, 200, 200, 255}},
      {"restricted", einsum("i => i, j", b, {{"j", "i"}, {"j <= i"}}), DType::boolean, {0, 0, 0, 1, 1, 0, 1, 1, 1}},
      {"a sum", einsum("b | i => i", grid), DType::i32, {2, 1, 0}},
      {"a sum of all", einsum("i =>", u), DType::i32, {458}},
      {"a sum over `_`", einsum("_ =>", u), DType::i32, {458}},
      {"windows that overlap",
       einsum("i, k => i+k", tensor(Array(parse_shape("2,2"), {200, 200, 200, 200}, DType::u8))),
       DType::i32,
       {200, 400, 200}},
  });
}

TEST(Precision, MeansOfIntegersAreSummedInFloats) {
  const Tensor many = einsum("=> i", number(1000000, DType::i32), {{"i", 3000}});
  expect_rows({
      {"mean of i32", mean(many), DType::f32, {1e6}},
      {"mean of u8", mean(bytes_of({255, 0, 255})), DType::f32, {170}},
      {"mean of bool", mean(bools_of({1, 0, 1, 1})), DType::f32, {0.75}},
      {"mean over an axis", mean("i => 0", ints_of({2147483647, 2147483647})), DType::f32, {2147483648.0}},
      {"mse of bytes", nn::mse(bytes_of({0, 255}), bytes_of({255, 0})), DType::f32, {65025}},
      {"mae of bytes", nn::mae(bytes_of({0, 255}), bytes_of({255, 0})), DType::f32, {255}},
      {"mse of i32", nn::mse(ints_of({100000, 0}), ints_of({0, 0})), DType::f32, {5e9}},
  });
}

TEST(Precision, I64IsExactBeyondTheIntegersOfDouble) {
  Array big(parse_shape("2"), DType::i64), one(parse_shape("2"), DType::i64);
  for (int64_t k : {0, 1}) {
    store_integer(DType::i64, big.mutable_data(), k, (int64_t(1) << 53) + 1 + k);
    store_integer(DType::i64, one.mutable_data(), k, 1);
  }
  const Tensor x = state("x", {.batch = Extents{}, .input = Extents{}, .output = {2}, .dtype = DType::i64});
  for (const char* device : {"interp", "cpu"}) {
    Context ctx({.device = device});
    ctx.write(x, big);
    auto integers = [&](const Tensor& t) {
      const Array value = ctx.eval(t);
      return std::vector<int64_t>{load_integer(DType::i64, value.data(), 0), load_integer(DType::i64, value.data(), 1)};
    };
    const int64_t n = int64_t(1) << 53;
    EXPECT_EQ(integers(x), (std::vector<int64_t>{n + 1, n + 2})) << device;
    EXPECT_EQ(integers(x + tensor(one)), (std::vector<int64_t>{n + 2, n + 3})) << device;
    EXPECT_EQ(integers(x * x), (std::vector<int64_t>{int64_t(uint64_t(n + 1) * uint64_t(n + 1)),
                                                     int64_t(uint64_t(n + 2) * uint64_t(n + 2))}))
        << device << ": wraps";
    EXPECT_EQ(integers(einsum("i; j => i", x, tensor(one))), (std::vector<int64_t>{2 * (n + 1), 2 * (n + 2)}))
        << device;
    EXPECT_EQ(ctx.eval(cast(x, DType::f32)).at(0), 0x1p53) << device;
    EXPECT_EQ(ctx.eval(largest(x) == x).values(), (Values{0, 1})) << device;
  }
}

TEST(Precision, ANumberIsRoundedBeforeItIsComparedWithFloats) {
  std::vector<Narrowing> rows;
  for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor x = of(dtype, {0.1, 0.2, 1.0 / 3});
    rows.push_back({"x == 0.1", x == 0.1, DType::boolean, {1, 0, 0}});
    rows.push_back({"x <= 0.1", x <= 0.1, DType::boolean, {1, 0, 0}});
    rows.push_back({"0.1 < x", 0.1 < Operand(x), DType::boolean, {0, 1, 1}});
    rows.push_back({"x != 1.0 / 3", x != 1.0 / 3, DType::boolean, {1, 1, 0}});
  }
  expect_rows(rows);
}

TEST(Precision, ModIsExact) {
  const Tensor a = of(DType::f64, {1e10, -1e10, 7.5, -7.5, 7.5, -7.5, 1e300, 5, -5, kInf, 5, kNaN, -1e-30, 6, -6, 0});
  const Tensor b = of(DType::f64, {3, 3, 2, 2, -2, -2, 7, kInf, -kInf, 3, 0, 3, 3, 3, 3, 3});
  const double big = std::fmod(1e300, 7);
  expect_rows(
      {{"mod(a, b)", mod(a, b), DType::f64, {1, 2, 1.5, 0.5, -0.5, -1.5, big, 5, -5, kNaN, kNaN, kNaN, 3, 0, 0, 0}},
       {"mod(f32, f32)",
        mod(of(DType::f32, {1e10, -16777216, 0.5}), of(DType::f32, {3, 5, -0.375})),
        DType::f32,
        {1, 4, -0.25}},
       {"mod by 0", mod(ints_of({5, -5}), ints_of({0, -1})), DType::i32, {0, 0}}});
  // The gradient by b is minus the quotient, also where a / b rounds up to the next integer.
  const Tensor x = param("x", Array::vector({1e10, 0.9999999}, DType::f64)),
               y = param("y", Array::vector({3, 0.33333333}, DType::f64));
  for (const char* device : {"interp", "cpu"})
    expect_values(Context({.device = device}).eval(grad(sum(mod(x, y)), y)), {-3333333333.0, -2}, device);
}

TEST(Precision, NumbersThatDoNotFitAreRefusedWhereTheyAreWritten) {
  const Tensor u = bytes_of({1, 2}), l = of(DType::i64, {0, 1});
  EXPECT_THROW(u * 300, DTypeError);
  EXPECT_THROW(where(l, u, 300), DTypeError) << "the condition's precision does not matter";
  EXPECT_THROW(einmax("i; => i", u, 300), DTypeError);
  EXPECT_NO_THROW(mul("i; => i", u, 300)) << "a sum of bytes is i32";
  EXPECT_THROW(mul("i; => i", u, int64_t(1) << 40), DTypeError);
}

TEST(Precision, AnIntegerIsNotRoundedWhereItIsWritten) {
  const Tensor x = state("x", {.batch = Extents{}, .input = Extents{}, .output = {2}});
  Context ctx({.device = "interp"});
  EXPECT_NO_THROW(ctx.write(x, Array::vector({16777216, -3}, DType::i64)));
  EXPECT_NO_THROW(ctx.write(x, Array::vector({0.1, 1e10}, DType::f64))) << "what is a float is rounded";
  try {
    ctx.write(x, Array::vector({1, 16777217}, DType::i64));
    ADD_FAILURE() << "not refused";
  } catch (const DTypeError& error) {
    EXPECT_NE(std::string(error.what()).find("16777217 would be rounded to 16777216"), std::string::npos)
        << error.what();
  }
}

TEST(Precision, JitReadsTheSameRules) {
  static const TemporaryFolder folder;
  const uint8_t u[] = {0, 1, 128, 255};
  auto run = [&](const char* text, auto* y, DType dtype) {
    jit::Options options;
    options.cache = folder.path, options.buffers.dtypes = {{"u", DType::u8}, {"y", dtype}};
    jit::compile(text, options).run({{"u", u}, {"y", y}});
  };
  float f[4] = {};
  run("y[i] += (u[i] - 128.0) / 128.0   for i < 4", f, DType::f32);
  EXPECT_EQ(f[0], -1);
  EXPECT_EQ(f[3], 0.9921875f);
  run("y[i] += u[i] * 2.0   for i < 4", f, DType::f32);
  EXPECT_EQ(f[3], 510);
  uint8_t wrapped[4] = {};
  run("y[i] += u[i] * 2   for i < 4", wrapped, DType::u8);
  EXPECT_EQ(wrapped[3], 254);
  jit::Options alone;
  alone.cache = folder.path, alone.buffers.dtypes = {{"y", DType::u8}};
  jit::compile("y[i] max= -1   for i < 4", alone).run({{"y", wrapped}});
  EXPECT_EQ(wrapped[3], 0) << "a number that the result cannot hold is cast to it";
  int32_t total[4] = {};
  run("y[0*i] += u[i] * u[i]   for i < 4", total, DType::i32);
  EXPECT_EQ(total[0], 81410);
}

}  // namespace
}  // namespace caravan
