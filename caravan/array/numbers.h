// Numbers of C++ as elements of arrays: which types there are, and what an array keeps them as.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>

#include "caravan/ops/dtype.h"

namespace caravan {

// What lies in memory one after the other and is numbers: std::vector, std::array, std::span, a C array. Not text.
template <class Values>
concept Numbers = requires(const Values& values) {
  std::size(values);
  requires std::is_arithmetic_v<std::remove_cvref_t<decltype(*std::data(values))>>;
  requires !std::is_same_v<std::remove_cvref_t<decltype(*std::data(values))>, char>;
};
// Inside: the type of those numbers.
template <Numbers Values>
using ElementOf = std::remove_cvref_t<decltype(*std::data(std::declval<const Values&>()))>;

// Inside: the type that an array keeps numbers of type T as: bool, uint8_t, int32_t, int64_t, float or double.
template <class T>
using Kept = std::conditional_t<
    std::is_same_v<T, bool> || std::is_same_v<T, uint8_t>, T,
    std::conditional_t<std::is_integral_v<T>,
                       std::conditional_t<(sizeof(T) < 4 || (sizeof(T) == 4 && std::is_signed_v<T>)), int32_t, int64_t>,
                       std::conditional_t<std::is_same_v<T, float>, float, double>>>;
// Inside: whether a T in memory is what the array keeps.
template <class T>
inline constexpr bool kKeptAsIs = sizeof(T) == sizeof(Kept<T>) && (std::is_signed_v<T> == std::is_signed_v<Kept<T>>);
// Inside: the precision of an array of them.
template <class T>
constexpr DType dtype_of() {
  using K = Kept<T>;
  return std::is_same_v<K, bool>      ? DType::boolean
         : std::is_same_v<K, uint8_t> ? DType::u8
         : std::is_same_v<K, int32_t> ? DType::i32
         : std::is_same_v<K, int64_t> ? DType::i64
         : std::is_same_v<K, float>   ? DType::f32
                                      : DType::f64;
}

// Inside: a number in a literal list.
struct LiteralNumber {
  template <class T>
  requires std::is_arithmetic_v<T> LiteralNumber(T value) : value(double(value)) {}
  double value;  // what was written
};
// A list of lists that is written in the program, such as {{0, 0}, {0, 1}}.
using LiteralRows = std::initializer_list<std::initializer_list<LiteralNumber>>;

}  // namespace caravan
