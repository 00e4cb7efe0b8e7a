// Precisions: names, promotion, conversions, halves.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <set>

#include "caravan/base/error.h"
#include "caravan/ops/dtype.h"
#include "caravan/ops/table.h"
#include "ops/formulas.h"

namespace caravan {
namespace {

constexpr DType kAll[] = {DType::boolean, DType::u8,   DType::i32, DType::i64,
                          DType::f16,     DType::bf16, DType::f32, DType::f64};

TEST(Precision, HasNamesAndSizes) {
  const char* names[] = {"bool", "u8", "i32", "i64", "f16", "bf16", "f32", "f64"};
  const int sizes[] = {1, 1, 4, 8, 2, 2, 4, 8};
  for (int i = 0; i < kDTypeCount; ++i) {
    EXPECT_EQ(name(kAll[i]), names[i]);
    EXPECT_EQ(find_dtype(names[i]), kAll[i]);
    EXPECT_EQ(bytes(kAll[i]), sizes[i]);
    EXPECT_EQ(is_float(kAll[i]), i >= 4);
    EXPECT_EQ(is_integer(kAll[i]), i >= 1 && i <= 3);
    EXPECT_TRUE(can_hold(kAll[i], largest(kAll[i]))) << names[i];
    EXPECT_EQ(convert(kAll[i], largest(kAll[i])), largest(kAll[i])) << names[i];
  }
  EXPECT_EQ(find_dtype("float"), std::nullopt);
}

TEST(Precision, PromotesByTheTable) {
  // Rows and columns in the order of kAll; the letter is the index of the result.
  const char* table[] = {"01234567", "11234567", "22234567", "33334567",
                         "44444667", "55556567", "66666667", "77777777"};
  for (int i = 0; i < kDTypeCount; ++i)
    for (int j = 0; j < kDTypeCount; ++j)
      EXPECT_EQ(int(promote(kAll[i], kAll[j])), table[i][j] - '0') << name(kAll[i]) << " with " << name(kAll[j]);
}

TEST(Precision, OfResultsFollowsTheWrittenRules) {
  using D = DType;
  constexpr bool s = false, w = true;  // strong, weak
  struct {
    Op op;
    std::vector<D> operands;
    std::array<bool, 3> weak;
    D result;
  } cases[] = {
      {Op::add, {D::i32, D::f16}, {s, s}, D::f16},
      {Op::add, {D::f16, D::bf16}, {s, s}, D::f32},
      {Op::add, {D::boolean, D::boolean}, {s, s}, D::i32},
      {Op::add, {D::u8, D::u8}, {s, s}, D::u8},
      {Op::max, {D::boolean, D::u8}, {s, s}, D::u8},
      {Op::neg, {D::boolean}, {s}, D::i32},
      {Op::add, {D::u8, D::i32}, {s, w}, D::u8},  // a weak integer takes the tensor's precision
      {Op::add, {D::i64, D::u8}, {w, s}, D::u8},
      {Op::mul, {D::f16, D::f64}, {s, w}, D::f16},  // a weak double too, among floats
      {Op::mul, {D::f32, D::f64}, {w, s}, D::f64},
      {Op::mul, {D::i32, D::f64}, {s, w}, D::f32},  // a weak fraction against integers
      {Op::mul, {D::boolean, D::f64}, {s, w}, D::f32},
      {Op::add, {D::boolean, D::i32}, {s, w}, D::i32},
      {Op::add, {D::i32, D::i32}, {w, w}, D::f32},  // two weak numbers
      {Op::add, {D::f64, D::f64}, {w, w}, D::f32},
      {Op::exp, {D::i64}, {s}, D::f32},
      {Op::exp, {D::bf16}, {s}, D::bf16},
      {Op::exp, {D::boolean}, {s}, D::f32},
      {Op::div, {D::i32, D::i32}, {s, s}, D::f32},
      {Op::div, {D::f64, D::i32}, {s, w}, D::f64},
      {Op::pow, {D::i32, D::i32}, {s, w}, D::f32},
      {Op::floor, {D::i32}, {s}, D::i32},
      {Op::lt, {D::f32, D::f64}, {s, s}, D::boolean},
      {Op::and_, {D::i32, D::f32}, {s, s}, D::boolean},
      {Op::not_, {D::f64}, {s}, D::boolean},
      {Op::where, {D::boolean, D::f16, D::i32}, {s, s, s}, D::f16},
      {Op::where, {D::f64, D::boolean, D::boolean}, {s, s, s}, D::boolean},
      {Op::where, {D::boolean, D::i32, D::f64}, {s, s, w}, D::f32},
      {Op::where, {D::f64, D::i32, D::i32}, {s, w, w}, D::f32},
      {Op::where, {D::boolean, D::u8, D::i32}, {s, s, w}, D::u8},
      {Op::clamp, {D::f16, D::f64, D::i32}, {s, w, w}, D::f16},
  };
  for (const auto& [op, operands, weak, result] : cases)
    EXPECT_EQ(name(result_type(op, operands, std::span(weak).first(operands.size()))), name(result))
        << row(op).name << " of " << name(operands[0]);
  EXPECT_THROW(result_type(Op::add, std::array{D::f32}, std::array{false}), InternalError);

  for (D d : kAll) {
    const D summed = d == D::boolean || d == D::u8 ? D::i32 : d;
    EXPECT_EQ(result_type(Accumulator::add, d), summed);
    EXPECT_EQ(result_type(Accumulator::mul, d), summed);
    EXPECT_EQ(result_type(Accumulator::max, d), d);
    EXPECT_EQ(result_type(Accumulator::min, d), d);
    EXPECT_EQ(result_type(Accumulator::or_, d), D::boolean);
    EXPECT_EQ(result_type(Accumulator::and_, d), D::boolean);
    EXPECT_EQ(result_type(Accumulator::argmax, d), D::i64);
    EXPECT_EQ(result_type(Accumulator::argmin, d), D::i64);
  }
}

struct Half {
  const char* name;
  uint16_t (*to)(double);
  double (*from)(uint16_t);
  uint16_t infinity;
};
constexpr Half kHalves[] = {{"f16", to_f16, from_f16, 0x7c00}, {"bf16", to_bf16, from_bf16, 0x7f80}};

TEST(Precision, HalvesRoundTripOverAllPatterns) {
  for (const Half& half : kHalves)
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const double value = half.from(uint16_t(bits));
      const bool nan = (bits & 0x7fff) > half.infinity;
      ASSERT_EQ(std::isnan(value), nan) << half.name << " " << bits;
      ASSERT_EQ(std::signbit(value), bits >= 0x8000) << half.name << " " << bits;
      if (nan) {
        ASSERT_GT(half.to(value) & 0x7fff, half.infinity) << half.name << " " << bits;
      } else {
        ASSERT_EQ(half.to(value), bits) << half.name;
      }
    }
}

// Between neighbours p < q: the middle goes to the even one, anything nearer to one goes there.
TEST(Precision, HalvesRoundToNearestEvenOnce) {
  for (const Half& half : kHalves)
    for (uint32_t bits = 0; bits + 1 < half.infinity; ++bits)
      for (uint16_t sign : {0, 0x8000}) {
        const uint16_t p = uint16_t(bits | sign), q = uint16_t((bits + 1) | sign);
        const double middle = (half.from(p) + half.from(q)) / 2;
        ASSERT_EQ(half.to(middle), bits % 2 == 0 ? p : q) << half.name << " " << bits;
        ASSERT_EQ(half.to(std::nextafter(middle, 0)), p) << half.name << " " << bits;
        ASSERT_EQ(half.to(std::nextafter(middle, middle * 4)), q) << half.name << " " << bits;
      }
}

TEST(Precision, BFloat16IsTheUpperHalfOfFloat32) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits)
    EXPECT_EQ(from_bf16(uint16_t(bits)), double(std::bit_cast<float>(bits << 16)));
}

TEST(Precision, KnownHalves) {
  struct {
    double value;
    uint16_t bits;
  } cases[] = {{1, 0x3c00},
               {-2, 0xc000},
               {65504, 0x7bff},
               {65519.999, 0x7bff},
               {65520, 0x7c00},
               {1e300, 0x7c00},
               {-1e300, 0xfc00},
               {kInf, 0x7c00},
               {0x1p-24, 0x0001},
               {0x1p-25, 0x0000},
               {0x1.0000000001p-25, 0x0001},
               {0x1.8p-24, 0x0002},
               {0x1p-14, 0x0400},
               {0x1.ffp-15, 0x03fe},
               {-0.0, 0x8000},
               {1e-310, 0x0000},
               {1.0 / 3, 0x3555},
               {1 + 0x1p-11, 0x3c00},
               {1 + 0x1p-11 + 0x1p-40, 0x3c01}};
  for (auto [value, bits] : cases) EXPECT_EQ(to_f16(value), bits) << value;
  // Through float this would round twice, and to the wrong side.
  EXPECT_EQ(to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(to_f16(double(float(1 + 0x1p-11 + 0x1p-40))), 0x3c00);
  EXPECT_EQ(to_bf16(0x1.FFp127), 0x7f80);
  EXPECT_EQ(to_bf16(0x1.FEFFFFFFFFFFFp127), 0x7f7f);
  EXPECT_EQ(to_bf16(1), 0x3f80);
}

TEST(Precision, ConvertsByRuleFive) {
  struct {
    DType dtype;
    double value, result;
  } cases[] = {{DType::i32, 2.9, 2},
               {DType::i32, -2.9, -2},
               {DType::i32, kNaN, 0},
               {DType::i32, 1e20, 2147483647},
               {DType::i32, -1e20, -2147483648.0},
               {DType::i32, kInf, 2147483647},
               {DType::i32, 2147483647.5, 2147483647},
               {DType::i32, -2147483648.5, -2147483648.0},
               {DType::u8, 300, 255},
               {DType::u8, -5, 0},
               {DType::u8, 254.99, 254},
               {DType::u8, kNaN, 0},
               {DType::i64, 1e30, 0x1p63},
               {DType::i64, -kInf, -0x1p63},
               {DType::i64, 9007199254740993.0, 9007199254740992.0},
               {DType::boolean, 0.1, 1},
               {DType::boolean, 0, 0},
               {DType::boolean, -0.0, 0},
               {DType::boolean, kNaN, 1},
               {DType::f32, 0.1, double(0.1f)},
               {DType::f32, 1e40, kInf},
               {DType::f64, 0.1, 0.1},
               {DType::f16, 1e-9, 0},
               {DType::bf16, 1.00390625, 1},
               {DType::bf16, 1.01171875, 1.015625}};
  for (auto [dtype, value, result] : cases) EXPECT_EQ(convert(dtype, value), result) << value << " as " << name(dtype);
  for (DType d : {DType::f16, DType::bf16, DType::f32, DType::f64}) EXPECT_TRUE(std::isnan(convert(d, kNaN)));
}

TEST(Precision, KnowsWhatItCanHold) {
  struct {
    DType dtype;
    double value;
    bool fits;
  } cases[] = {{DType::u8, 255, true},
               {DType::u8, 256, false},
               {DType::u8, 300, false},
               {DType::u8, -1, false},
               {DType::u8, 0.5, false},
               {DType::u8, kNaN, false},
               {DType::boolean, 1, true},
               {DType::boolean, 2, false},
               {DType::boolean, 0.5, false},
               {DType::i32, -2147483648.0, true},
               {DType::i32, 2147483648.0, false},
               {DType::i32, 1.5, false},
               {DType::i32, kInf, false},
               {DType::i64, 0x1p62, true},
               {DType::i64, 0x1p63, false},
               {DType::i64, -0x1p63, true},
               {DType::f16, 65504, true},
               {DType::f16, 65519, true},
               {DType::f16, 65520, false},
               {DType::f16, 1e-9, true},
               {DType::f16, kInf, true},
               {DType::f16, kNaN, true},
               {DType::f32, 1e38, true},
               {DType::f32, 1e40, false},
               {DType::f32, 0.1, true},
               {DType::f32, kNaN, true},
               {DType::bf16, 1e38, true},
               {DType::bf16, 3.4e38, false},
               {DType::f64, 1e300, true},
               {DType::f64, -kInf, true}};
  for (auto [dtype, value, fits] : cases) EXPECT_EQ(can_hold(dtype, value), fits) << value << " as " << name(dtype);
}

TEST(Precision, LoadsWhatItStored) {
  for (DType dtype : kAll) {
    std::vector<std::byte> data(size_t(bytes(dtype)) * 4, std::byte{0x55});
    for (int i : {2, 0, 1}) store(dtype, data.data(), i, i % 2);
    for (int i : {0, 1, 2}) EXPECT_EQ(load(dtype, data.data(), i), i % 2) << name(dtype);
    for (int b = 0; b < bytes(dtype); ++b)
      EXPECT_EQ(data[size_t(3 * bytes(dtype) + b)], std::byte{0x55}) << name(dtype);
  }
}

}  // namespace
}  // namespace caravan
