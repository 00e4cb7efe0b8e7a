// Precisions: what a tensor's elements are, how they convert, and what two of them give together.
//
// Promotion, written down once:
//   1. The order is bool < u8 < i32 < i64 < f16, bf16 < f32 < f64; the higher one wins; f16 with bf16 gives f32.
//   2. A C++ number is *weak*: it takes the tensor's precision. A weak number with a fraction (or written as a
//      double) against an integer tensor gives f32. Two weak numbers give f32.
//   3. Functions of the reals (exp, sqrt, division, ...) of an integer give f32. Arithmetic on bool gives i32.
//   4. Comparisons and logic give bool. A sum or product of bool or u8 elements gives i32.
//   5. `cast` converts: to an integer by truncation towards zero (NaN gives 0, out of range saturates),
//      to bool by `!= 0`, to a float by round-to-nearest-even.
//   6. A number that the chosen precision cannot hold (300 as u8, 1e40 as f32) is refused where it is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace caravan {

enum class DType : uint8_t { boolean, u8, i32, i64, f16, bf16, f32, f64 };  // in the order of promotion
inline constexpr int kDTypeCount = 8;

std::string_view name(DType dtype);  // "bool", "u8", ... "f64"
std::optional<DType> find_dtype(std::string_view name);
int bytes(DType dtype);
bool is_float(DType dtype);
bool is_integer(DType dtype);  // u8, i32, i64; not bool

DType promote(DType a, DType b);

double largest(DType dtype);  // the largest finite value
bool can_hold(DType dtype,
              double value);  // no overflow; NaN and infinities fit floats only; fractions fit integers never
double convert(DType dtype, double value);  // rule 5; the value of `value` after a round trip through `dtype`

uint16_t to_f16(double value);  // round to nearest even, one rounding from double
double from_f16(uint16_t bits);
uint16_t to_bf16(double value);
double from_bf16(uint16_t bits);

// Element `index` of a packed array of `dtype`.
double load(DType dtype, const void* data, int64_t index);
void store(DType dtype, void* data, int64_t index, double value);  // converts

}  // namespace caravan
