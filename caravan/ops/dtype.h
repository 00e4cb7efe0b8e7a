// Precisions: what elements are, how they convert, what two of them give together: `type_of` in op.h, for every engine.
// 1. The order is bool < u8 < i32 < i64 < f16, bf16 < f32 < f64; the higher one wins; f16 with bf16 gives f32.
// 2. A C++ number is *weak*: it takes the tensor's precision, to which it is rounded before it is compared. One with a
//    fraction, or written as a double (2.0), against integers gives f32; compared with them it is compared exactly.
//    Two weak numbers give f32.
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

enum class DType : uint8_t { boolean, u8, i32, i64, f16, bf16, f32, f64 };  // in the order of promotion
inline constexpr int kDTypeCount = 8;                                       // how many there are

std::string_view name(DType dtype);                      // "bool", "u8", ... "f64"
std::optional<DType> find_dtype(std::string_view name);  // the inverse of name; none for other words
int bytes(DType dtype);                                  // of one element
bool is_float(DType dtype);                              // f16, bf16, f32, f64
bool is_integer(DType dtype);                            // u8, i32, i64; not bool

DType promote(DType a, DType b);  // what two tensors of these precisions give together: rule 1

double largest(DType dtype);  // the largest finite value
// No overflow; NaN and infinities fit floats only; fractions fit integers never.
bool can_hold(DType dtype, double value);
double convert(DType dtype, double value);  // rule 5; the value of `value` after a round trip through `dtype`

uint16_t to_f16(double value);    // round to nearest even, one rounding from double
double from_f16(uint16_t bits);   // exact
uint16_t to_bf16(double value);   // likewise
double from_bf16(uint16_t bits);  // exact

// Integers and bool, exactly: a double has only the integers up to 2^53.
int64_t lowest_integer(DType dtype);
int64_t highest_integer(DType dtype);           // the largest value of an integer precision
int64_t wrapped(DType dtype, int64_t value);    // modulo 2^bits, as arithmetic does; bool by `!= 0`
int64_t saturated(DType dtype, int64_t value);  // the nearest one, as `cast` does; bool by `!= 0`
int64_t to_integer(DType dtype, double value);  // rule 5

// Element `index` of a packed array of `dtype`.
double load(DType dtype, const void* data, int64_t index);
void store(DType dtype, void* data, int64_t index, double value);    // converts
int64_t load_integer(DType dtype, const void* data, int64_t index);  // element `index` of integers or bools, exactly
void store_integer(DType dtype, void* data, int64_t index, int64_t value);  // a value of the precision

}  // namespace caravan
