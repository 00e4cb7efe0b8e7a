#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <memory>
#include <type_traits>

#include "caravan/array/numbers.h"
#include "caravan/backend/communicator.h"
#include "caravan/base/error.h"
#include "caravan/target/exchange.h"
#include "caravan/target/target.h"

namespace caravan::backend {

namespace {

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

// out[k] = operation(one[k], other[k]), of values that need not be aligned; `out` may be `one`. The inner loop is a
// vector of kShortestVector bytes, which GCC finds also at -O2: 1 MB in 28 us on an AMD EPYC. Loops over 32 or 64 bytes
// leave `a` and `b` in memory, and take 60.
template <class T, class Operation>
void combine_two(const char* one, const char* other, char* out, int64_t count, Operation&& operation) {
  constexpr int64_t kTogether = kShortestVector / int64_t(sizeof(T));
  T a[kTogether], b[kTogether];
  for (; count >= kTogether; count -= kTogether, one += sizeof(a), other += sizeof(a), out += sizeof(a)) {
    std::memcpy(a, one, sizeof(a)), std::memcpy(b, other, sizeof(a));
    for (int64_t k = 0; k < kTogether; ++k) a[k] = operation(a[k], b[k]);
    std::memcpy(out, a, sizeof(a));
  }
  for (; count > 0; --count, one += sizeof(T), other += sizeof(T), out += sizeof(T)) {
    std::memcpy(a, one, sizeof(T)), std::memcpy(b, other, sizeof(T));
    a[0] = operation(a[0], b[0]);
    std::memcpy(out, a, sizeof(T));
  }
}

template <class T>
void combine_two(const void* one, const void* other, void* out, int64_t count, Accumulator accumulator) {
  using U = typename Wrapping<T>::type;
  auto all = [&](auto operation) {
    combine_two<T>(static_cast<const char*>(one), static_cast<const char*>(other), static_cast<char*>(out), count,
                   operation);
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
  const auto memory = std::make_unique_for_overwrite<T[]>(rows * size_t(std::min(kCombinedAtOnce, last - first)));
  auto block = [&](size_t r) { return memory.get() + r * size_t(std::min(kCombinedAtOnce, last - first)); };
  for (int64_t from = first; from < last; from += kCombinedAtOnce) {
    const int64_t count = std::min(kCombinedAtOnce, last - from);
    for (size_t r = 0; r < rows; ++r) load(r, from, count, block(r));
    for (size_t stride = 1; stride < rows; stride *= 2)
      for (size_t r = 0; r + stride < rows; r += 2 * stride)
        combine_two<T>(block(r), block(r + stride), block(r), count, accumulator);
    store(from, count, block(0));
  }
}

template <class T>
void combine_plain(std::span<const void* const> rows, void* out, int64_t first, int64_t last, Accumulator accumulator) {
  if (rows.size() == 2)
    return combine_two<T>(static_cast<const T*>(rows[0]) + first, static_cast<const T*>(rows[1]) + first,
                          static_cast<T*>(out) + first, last - first, accumulator);
  const auto size = [](int64_t count) { return size_t(count) * sizeof(T); };
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
