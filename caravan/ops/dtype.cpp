#include "caravan/ops/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "caravan/base/error.h"

namespace caravan {

namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int bytes;
  double largest;
};

constexpr std::array<DTypeRow, kDTypeCount> kDTypes = {{
    {DType::boolean, "bool", 1, 1},
    {DType::u8, "u8", 1, 255},
    {DType::i32, "i32", 4, 2147483647},
    {DType::i64, "i64", 8, 9223372036854774784.0},  // the largest double below 2^63
    {DType::f16, "f16", 2, 65504},
    {DType::bf16, "bf16", 2, 0x1.FEp127},
    {DType::f32, "f32", 4, std::numeric_limits<float>::max()},
    {DType::f64, "f64", 8, std::numeric_limits<double>::max()},
}};
static_assert(
    [] {
      for (int i = 0; i < kDTypeCount; ++i)
        if (int(kDTypes[size_t(i)].dtype) != i) return false;
      return true;
    }(),
    "kDTypes must be in the order of enum DType");

const DTypeRow& row(DType dtype) {
  CARAVAN_CHECK(int(dtype) < kDTypeCount, "dtype number " + std::to_string(int(dtype)));
  return kDTypes[size_t(dtype)];
}

// A 16-bit float: one sign bit, `exponent` bits with bias 2^(exponent-1) - 1, `mantissa` bits. A value v with
// 2^E <= |v| < 2^(E+1) is a multiple of the quantum 2^(max(E, 1 - bias) - mantissa); rounding is to that multiple.
struct Format {
  int exponent, mantissa;
  constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
  constexpr uint16_t infinity() const { return uint16_t(((1 << exponent) - 1) << mantissa); }
};
constexpr Format kF16{5, 10}, kBF16{8, 7};

uint16_t encode(Format format, double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint16_t sign = uint16_t(bits >> 63 << 15);
  const int biased = int(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t(1) << 52) - 1);
  if (biased == 0x7ff && fraction != 0) return uint16_t(sign | format.infinity() | 1u << (format.mantissa - 1));
  if (biased == 0x7ff) return uint16_t(sign | format.infinity());
  // Zeros and subnormal doubles round to 0: they are far below half of the smallest 16-bit float.
  if (biased == 0) return sign;

  const uint64_t significand = fraction | uint64_t(1) << 52;  // |value| = significand * 2^(E - 52)
  const int E = biased - 1023;
  const int lowest = 1 - format.bias();
  const int dropped = 52 - format.mantissa + std::max(0, lowest - E);
  if (dropped > 53) return sign;  // below half a quantum, so it rounds to 0
  uint64_t kept = significand >> dropped;
  const uint64_t rest = significand & ((uint64_t(1) << dropped) - 1);
  const uint64_t half = uint64_t(1) << (dropped - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  if (E >= lowest) {
    // `kept` holds the leading one; a carry out of the mantissa moves into the exponent, as it should.
    if (E > format.bias()) return uint16_t(sign | format.infinity());
    kept += uint64_t(E + format.bias() - 1) << format.mantissa;
  }
  return uint16_t(sign | std::min<uint64_t>(kept, format.infinity()));
}

double decode(Format format, uint16_t bits) {
  const double sign = bits >> 15 ? -1.0 : 1.0;
  const int exponent = (bits & 0x7fff) >> format.mantissa;
  const int fraction = bits & ((1 << format.mantissa) - 1);
  if (exponent == (1 << format.exponent) - 1)
    return std::copysign(fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity(),
                         sign);
  const int significand = exponent == 0 ? fraction : fraction | 1 << format.mantissa;
  return sign * std::ldexp(significand, std::max(exponent, 1) - format.bias() - format.mantissa);
}

// Truncates towards zero. NaN gives 0, and a value out of range saturates. The bounds that it compares with are powers
// of two, and so exact as doubles.
template <class Integer>
Integer truncated(double value) {
  constexpr double low = double(std::numeric_limits<Integer>::min());
  constexpr double beyond = 2.0 * double(Integer(1) << (std::numeric_limits<Integer>::digits - 1));  // max + 1
  if (std::isnan(value)) return 0;
  if (value <= low) return std::numeric_limits<Integer>::min();
  if (value >= beyond) return std::numeric_limits<Integer>::max();
  return Integer(value);
}

template <class T>
T read(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void write(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * int64_t(sizeof(T)), &value, sizeof(T));
}

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }
int bytes(DType dtype) { return row(dtype).bytes; }
double largest(DType dtype) { return row(dtype).largest; }
bool is_float(DType dtype) { return dtype >= DType::f16; }
bool holds_all(DType wide, DType narrow) {
  switch (narrow) {
    case DType::boolean: return true;
    case DType::u8: return wide != DType::boolean && wide != DType::bf16;
    case DType::i32: return wide == DType::i64 || wide == DType::f64;
    case DType::f16:
    case DType::bf16: return wide == DType::f32 || wide == DType::f64;
    case DType::f32: return wide == DType::f64;
    default: return false;
  }
}
bool is_integer(DType dtype) { return dtype >= DType::u8 && dtype <= DType::i64; }

std::optional<DType> find_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

DType promote(DType a, DType b) {
  if ((a == DType::f16 && b == DType::bf16) || (a == DType::bf16 && b == DType::f16)) return DType::f32;
  return std::max(a, b);
}

bool can_hold(DType dtype, double value) {
  if (is_float(dtype)) return !std::isfinite(value) || std::isfinite(convert(dtype, value));
  if (!std::isfinite(value) || value != std::trunc(value)) return false;
  switch (dtype) {
    case DType::i32: return value >= -0x1p31 && value < 0x1p31;
    case DType::i64: return value >= -0x1p63 && value < 0x1p63;
    default: return value >= 0 && value <= largest(dtype);
  }
}

double convert(DType dtype, double value) {
  uint64_t element = 0;
  store(dtype, &element, 0, value);
  return load(dtype, &element, 0);
}

uint16_t to_f16(double value) { return encode(kF16, value); }
double from_f16(uint16_t bits) { return decode(kF16, bits); }
uint16_t to_bf16(double value) { return encode(kBF16, value); }
double from_bf16(uint16_t bits) { return decode(kBF16, bits); }

double load(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::boolean: return read<uint8_t>(data, index) != 0;
    case DType::u8: return read<uint8_t>(data, index);
    case DType::i32: return read<int32_t>(data, index);
    case DType::i64: return double(read<int64_t>(data, index));
    case DType::f16: return from_f16(read<uint16_t>(data, index));
    case DType::bf16: return from_bf16(read<uint16_t>(data, index));
    case DType::f32: return read<float>(data, index);
    case DType::f64: return read<double>(data, index);
  }
  return 0;
}

void store(DType dtype, void* data, int64_t index, double value) {
  switch (dtype) {
    case DType::boolean: return write(data, index, uint8_t(value != 0));
    case DType::u8: return write(data, index, truncated<uint8_t>(value));
    case DType::i32: return write(data, index, truncated<int32_t>(value));
    case DType::i64: return write(data, index, truncated<int64_t>(value));
    case DType::f16: return write(data, index, to_f16(value));
    case DType::bf16: return write(data, index, to_bf16(value));
    case DType::f32: return write(data, index, float(value));
    case DType::f64: return write(data, index, value);
  }
}

int64_t lowest_integer(DType dtype) {
  switch (dtype) {
    case DType::i32: return std::numeric_limits<int32_t>::min();
    case DType::i64: return std::numeric_limits<int64_t>::min();
    default: return 0;
  }
}

int64_t highest_integer(DType dtype) {
  return dtype == DType::i64 ? std::numeric_limits<int64_t>::max() : int64_t(largest(dtype));
}

int64_t wrapped(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::boolean: return value != 0;
    case DType::u8: return uint8_t(value);
    case DType::i32: return int32_t(uint32_t(value));
    default: return value;
  }
}

int64_t saturated(DType dtype, int64_t value) {
  if (dtype == DType::boolean) return value != 0;
  return std::clamp(value, lowest_integer(dtype), highest_integer(dtype));
}

int64_t to_integer(DType dtype, double value) {
  switch (dtype) {
    case DType::boolean: return value != 0;
    case DType::u8: return truncated<uint8_t>(value);
    case DType::i32: return truncated<int32_t>(value);
    default: return truncated<int64_t>(value);
  }
}

int64_t load_integer(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::boolean: return read<uint8_t>(data, index) != 0;
    case DType::u8: return read<uint8_t>(data, index);
    case DType::i32: return read<int32_t>(data, index);
    case DType::i64: return read<int64_t>(data, index);
    default: CARAVAN_CHECK(false, std::string(name(dtype)) + " is no integer"); return 0;
  }
}

void store_integer(DType dtype, void* data, int64_t index, int64_t value) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return write(data, index, uint8_t(value));
    case DType::i32: return write(data, index, int32_t(value));
    case DType::i64: return write(data, index, value);
    default: CARAVAN_CHECK(false, std::string(name(dtype)) + " is no integer");
  }
}

}  // namespace caravan
