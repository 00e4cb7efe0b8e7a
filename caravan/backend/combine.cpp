#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <memory>
#include <type_traits>

#include "caravan/array/numbers.h"
#include "caravan/backend/communicator.h"
#include "caravan/base/error.h"

namespace caravan::backend {

namespace {

constexpr int64_t kBlock = 512;  // elements, so that a block of each row is in the nearest cache

template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a)) return a;
  return a >= b ? a : b;  // b, if it is NaN
}
template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a)) return a;
  return a <= b ? a : b;
}

// The type in which sums are computed, so that integers wrap.
template <class T>
struct Wrapping {
  using type = T;
};
template <std::integral T>
struct Wrapping<T> {
  using type = std::make_unsigned_t<T>;
};

// row[k] = row[k] combined with other[k]
template <class T>
void combine_rows(T* row, const T* other, int64_t count, Accumulator accumulator) {
  using U = typename Wrapping<T>::type;
  auto all = [&](auto&& op) {
    for (int64_t k = 0; k < count; ++k) row[k] = op(row[k], other[k]);
  };
  switch (accumulator) {
    case Accumulator::add: return all([](T a, T b) { return T(U(a) + U(b)); });
    case Accumulator::mul: return all([](T a, T b) { return T(U(a) * U(b)); });
    case Accumulator::max: return all([](T a, T b) { return larger(a, b); });
    case Accumulator::min: return all([](T a, T b) { return smaller(a, b); });
    case Accumulator::or_: return all([](T a, T b) { return T(a != T(0) || b != T(0)); });
    case Accumulator::and_: return all([](T a, T b) { return T(a != T(0) && b != T(0)); });
    default: break;
  }
  CARAVAN_CHECK(false, "positions cannot be combined");
}

// Rows of a block, loaded by load(row, k), become one by `stride` 1, 2, 4, ...
template <class T, class Load, class Store>
void combine_as(size_t rows, int64_t first, int64_t last, Accumulator accumulator, Load load, Store store) {
  const auto memory = std::make_unique_for_overwrite<T[]>(rows * size_t(std::min(kBlock, last - first)));
  auto block = [&](size_t r) { return memory.get() + r * size_t(std::min(kBlock, last - first)); };
  for (int64_t from = first; from < last; from += kBlock) {
    const int64_t count = std::min(kBlock, last - from);
    for (size_t r = 0; r < rows; ++r) load(r, from, count, block(r));
    for (size_t stride = 1; stride < rows; stride *= 2)
      for (size_t r = 0; r + stride < rows; r += 2 * stride)
        combine_rows(block(r), block(r + stride), count, accumulator);
    store(from, count, block(0));
  }
}

template <class T>
void combine_plain(std::span<const void* const> rows, void* out, int64_t first, int64_t last, Accumulator accumulator) {
  const auto size = [](int64_t count) { return size_t(count) * sizeof(T); };
  if (rows.size() == 2) {  // as below, with one copy less
    T other[kBlock];
    for (int64_t from = first; from < last; from += kBlock) {
      const int64_t count = std::min(kBlock, last - from);
      T* to = static_cast<T*>(out) + from;
      std::memcpy(to, static_cast<const T*>(rows[0]) + from, size(count));
      std::memcpy(other, static_cast<const T*>(rows[1]) + from, size(count));
      combine_rows(to, other, count, accumulator);
    }
    return;
  }
  combine_as<T>(
      rows.size(), first, last, accumulator,
      [&](size_t r, int64_t from, int64_t count, T* to) {
        std::memcpy(to, static_cast<const T*>(rows[r]) + from, size(count));
      },
      [&](int64_t from, int64_t count, const T* values) {
        std::memcpy(static_cast<T*>(out) + from, values, size(count));
      });
}

}  // namespace

void combine(std::span<const void* const> rows, void* out, int64_t first, int64_t last, DType dtype,
             Accumulator accumulator) {
  if (dtype == DType::boolean && accumulator == Accumulator::add) accumulator = Accumulator::or_;
  if (dtype == DType::boolean && accumulator == Accumulator::mul) accumulator = Accumulator::and_;
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return combine_plain<uint8_t>(rows, out, first, last, accumulator);
    case DType::i32: return combine_plain<int32_t>(rows, out, first, last, accumulator);
    case DType::i64: return combine_plain<int64_t>(rows, out, first, last, accumulator);
    case DType::f32: return combine_plain<float>(rows, out, first, last, accumulator);
    case DType::f64: return combine_plain<double>(rows, out, first, last, accumulator);
    case DType::f16:
    case DType::bf16: break;
  }
  combine_as<float>(  // computed in f32, rounded once
      rows.size(), first, last, accumulator,
      [&](size_t r, int64_t from, int64_t count, float* to) {
        for (int64_t k = 0; k < count; ++k) to[k] = float(load(dtype, rows[r], from + k));
      },
      [&](int64_t from, int64_t count, const float* values) {
        for (int64_t k = 0; k < count; ++k) store(dtype, out, from + k, double(values[k]));
      });
}

}  // namespace caravan::backend
