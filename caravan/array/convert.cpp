#include "caravan/array/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace caravan {

namespace {

template <class To, class From>
To converted(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (std::is_floating_point_v<To>) {
    return To(value);  // rounded once
  } else if constexpr (std::is_integral_v<From>) {
    return To(std::clamp<int64_t>(value, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
  } else {
    constexpr double kBeyond = 2.0 * double(To(1) << (std::numeric_limits<To>::digits - 1));  // the largest + 1
    const double v = value;
    if (std::isnan(v)) return 0;
    if (v <= double(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return v >= kBeyond ? std::numeric_limits<To>::max() : To(v);
  }
}

template <class From, class To>
void convert_all(const void* source, void* target, int64_t count) {
  const auto* from = static_cast<const From*>(source);
  auto* to = static_cast<To*>(target);
  for (int64_t i = 0; i < count; ++i) to[i] = converted<To>(from[i]);
}

// Calls f with a value of the C++ type of a precision; false where it has none.
template <class F>
bool with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::boolean: return f(bool()), true;
    case DType::u8: return f(uint8_t()), true;
    case DType::i32: return f(int32_t()), true;
    case DType::i64: return f(int64_t()), true;
    case DType::f32: return f(float()), true;
    case DType::f64: return f(double()), true;
    case DType::f16:
    case DType::bf16: return false;
  }
  return false;
}

}  // namespace

void convert_elements(DType from, const void* source, DType to, void* target, int64_t count) {
  if (count == 0) return;
  if (from == to) {
    std::memcpy(target, source, size_t(count * bytes(from)));
    return;
  }
  bool done = false;
  with_type(from, [&](auto a) {
    done = with_type(to, [&](auto b) { convert_all<decltype(a), decltype(b)>(source, target, count); });
  });
  if (done) return;
  for (int64_t i = 0; i < count; ++i) store(to, target, i, load(from, source, i));  // one is a 16-bit float
}

}  // namespace caravan
