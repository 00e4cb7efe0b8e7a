// Precisions: the types of elements, how they convert, and what the operation on two of them gives. The interpreter and
// compiled code follow the same rules through `type_of` in op.h.
// 1. The order is bool < u8 < i32 < i64 < f16, bf16 < f32 < f64; the higher one wins; f16 with bf16 gives f32.
// 2. A C++ number is *weak*: it takes the precision of the tensor that it is combined with, and is rounded to it. A
//    number with a fraction, or written as a double (2.0), gives f32 with a tensor of integers; a comparison with
//    integers is exact. Two weak numbers give f32.
// 3. Functions of the reals (exp, sqrt, division, ...) of an integer give f32. Arithmetic on bool gives i32.
// 4. Comparisons and logic give bool. A sum or product of bool or u8 elements gives i32, and terms such as the products
//    of a contraction are computed in at least the result's precision; an einsum that only moves elements keeps theirs.
//    Means of integers are f32, and so are their sums.
// 5. `cast` converts: to an integer by truncation towards zero (NaN gives 0, out of range saturates),
//    to bool by `!= 0`, to a float by round-to-nearest-even. Integer arithmetic wraps; f16 and bf16 are computed in
//    f32.
// 6. A number that the chosen precision cannot hold (300 as u8, 1e40 as f32) is refused where it is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace caravan {

enum class DType : uint8_t { boolean, u8, i32, i64, f16, bf16, f32, f64 };  // the precisions, in the order of promotion
inline constexpr int kDTypeCount = 8;                                       // the number of precisions

std::string_view name(DType dtype);                      // "bool", "u8", ... "f64"
std::optional<DType> find_dtype(std::string_view name);  // the inverse of name; none for other words
int bytes(DType dtype);                                  // the bytes of one element
bool is_float(DType dtype);                              // f16, bf16, f32, f64
bool is_integer(DType dtype);                            // u8, i32, i64; not bool

DType promote(DType a, DType b);  // the precision of an operation on both: rule 1
// Inside: is every value of precision `narrow` one of precision `wide`, another one?
bool holds_all(DType wide, DType narrow);

double largest(DType dtype);  // the largest finite value
// Does the precision hold the value without overflow? Only floats hold NaN and infinities; integers hold no fractions.
bool can_hold(DType dtype, double value);
double convert(DType dtype, double value);  // rule 5: the value after conversion to `dtype` and back

uint16_t to_f16(double value);    // the bits of the nearest value, ties to even
double from_f16(uint16_t bits);   // the value of the bits, exactly
uint16_t to_bf16(double value);   // rounded like to_f16
double from_bf16(uint16_t bits);  // the value of the bits, exactly

// Functions for integers and bool, which are exact. A double holds all integers only up to 2^53.
int64_t lowest_integer(DType dtype);
int64_t highest_integer(DType dtype);           // the largest value of an integer precision
int64_t wrapped(DType dtype, int64_t value);    // modulo 2^bits, like arithmetic; for bool, value != 0
int64_t saturated(DType dtype, int64_t value);  // the nearest value in range, like `cast`; for bool, value != 0
int64_t to_integer(DType dtype, double value);  // rule 5

// Element `index` of a packed array of `dtype`.
double load(DType dtype, const void* data, int64_t index);
void store(DType dtype, void* data, int64_t index, double value);    // converts
int64_t load_integer(DType dtype, const void* data, int64_t index);  // element `index` of integers or bools, exactly
// The value must be in the range of the precision.
void store_integer(DType dtype, void* data, int64_t index, int64_t value);

}  // namespace caravan
