// An array on the host: a shape, a precision and packed elements in memory order. A cheap value handle;
// copies share the elements, writing through `mutable_*` first makes them private.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "caravan/base/handle.h"
#include "caravan/base/shape.h"
#include "caravan/ops/dtype.h"

namespace caravan {

// An array of numbers that are known now, in the memory of this process.
class Array {
 public:
  Array() : Array(Shape{}, DType::f32) {}                                           // a scalar zero
  explicit Array(Shape shape, DType dtype = DType::f32);                            // zeros
  Array(Shape shape, const std::vector<double>& values, DType dtype = DType::f32);  // values in memory order, converted
  // Numbers written in the program: refused where `dtype` cannot hold them.
  static Array scalar(double value, DType dtype = DType::f32);
  static Array vector(const std::vector<double>& values, DType dtype = DType::f32);             // one output axis
  static Array matrix(const std::vector<std::vector<double>>& rows, DType dtype = DType::f32);  // two output axes
  static Array from_floats(Shape shape, const float* data);   // copies as many numbers as the shape has, as f32
  static Array from_bytes(Shape shape, const uint8_t* data);  // copies as many bytes as the shape has, as u8

  const Shape& shape() const { return shape_; }           // the sizes of its axes
  DType dtype() const { return dtype_; }                  // the precision of its elements
  int64_t size() const { return size_; }                  // the number of its elements
  double at(int64_t index) const;                         // flat, in memory order; checked
  double at(std::initializer_list<int64_t> index) const;  // one per axis in memory order; checked
  void set(int64_t index, double value);                  // converts to dtype
  double item() const;                                    // the only element; refused if there are more
  std::vector<double> values() const;                     // all elements in memory order
  const void* data() const;                               // the packed elements, of type dtype()
  void* mutable_data();  // the same to write to; other copies of the array keep the old elements

  Array cast(DType dtype) const;      // the elements converted, as rule 5 of ops/dtype.h says
  Array reshaped(Shape shape) const;  // the same elements; refused if their number differs
  // The leftmost batch axis n becomes n/size, size; refused if size does not divide n.
  Array batches(int64_t size) const;
  Array map(const std::function<double(double)>& f) const;  // f of each element
  // f of each pair of elements of two arrays of one shape.
  static Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f);
  Array take(const std::vector<int64_t>& rows) const;  // rows along the leftmost axis, in this order

  // `array[i]` is whatever `slice(array, i)` is for the type of i; tensor/ defines it for a static Index.
  template <class Position>
  auto operator[](const Position& position) const {
    return slice(*this, position);
  }

 private:
  Shape shape_;
  DType dtype_;
  int64_t size_;
  Handle<std::vector<std::byte>> bytes_;
};

// 15, [1 2 3], or nested rows, each innermost row on its line, batch axes outermost: [[1 2]\n [3 4]].
// An axis longer than max_per_axis is shortened with "..". Floats as %.6g, integers in full.
std::ostream& operator<<(std::ostream& out, const Array& array);
std::string to_string(const Array& array, int max_per_axis = 12);  // the text that << prints

}  // namespace caravan
