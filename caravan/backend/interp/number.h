// Numbers as the interpreter computes with them: floats in double, integers in 64 bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "caravan/ir/program.h"
#include "caravan/ops/dtype.h"

namespace caravan::interp {

// A value: `real` if its entry or buffer is a float, `integer` if it is an integer or bool.
union Number {
  double real;
  int64_t integer;
};
inline Number of_real(double value) {
  Number out;
  out.real = value;
  return out;
}
inline Number of_integer(int64_t value) {
  Number out;
  out.integer = value;
  return out;
}

// Implicit conversion from precision `from` to `to`: a float saturates in an integer, an integer wraps.
inline Number converted(Number value, DType from, DType to) {
  if (is_float(to)) return is_float(from) ? value : of_real(double(value.integer));
  return of_integer(is_float(from) ? to_integer(to, value.real) : wrapped(to, value.integer));
}
// Rule 5 of dtype.h.
inline Number cast(Number value, DType from, DType to) {
  if (!is_float(to)) return of_integer(is_float(from) ? to_integer(to, value.real) : saturated(to, value.integer));
  if (to == DType::f32 && !is_float(from)) return of_real(float(value.integer));  // rounded once
  return of_real(convert(to, is_float(from) ? value.real : double(value.integer)));
}
// A constant as an integer; one that is out of range wraps.
inline int64_t to_wrapped(DType dtype, double constant) {
  if (std::isfinite(constant) && !can_hold(dtype, std::trunc(constant)) && dtype != DType::boolean)
    return wrapped(dtype, to_integer(DType::i64, constant));
  return to_integer(dtype, constant);
}

// The elements of a buffer, read in place without a copy, so that a program which reads a slice of a large data set
// does not copy all of it.
struct Elements {
  const void* data = nullptr;
  DType dtype = DType::f64;
  int64_t size = 0;

  Number operator[](int64_t index) const {
    if (dtype == DType::f64) return of_real(static_cast<const double*>(data)[index]);
    return is_float(dtype) ? of_real(load(dtype, data, index)) : of_integer(load_integer(dtype, data, index));
  }
  int64_t integer(int64_t index) const { return converted((*this)[index], dtype, DType::i64).integer; }
};

inline void put_number(Array& into, int64_t index, Number value) {
  if (is_float(into.dtype()))
    store(into.dtype(), into.mutable_data(), index, value.real);
  else
    store_integer(into.dtype(), into.mutable_data(), index, value.integer);
}

}  // namespace caravan::interp
