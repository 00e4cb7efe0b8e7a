// An array on the host: a shape, a precision and packed elements in memory order. A cheap value handle;
// copies share the elements, writing through `mutable_*` first makes them private.
//
//     Array x = rows({{0, 0}, {0, 1}, {1, 0}, {1, 1}});             // four examples of two numbers: 4|2
//     Array y({.batch = {n}, .output = {3}}, values);               // values: a vector, span or array of any numbers
//     Array z = Array::view({.batch = {n}, .output = {3}}, floats); // your memory, without a copy
//
// Wherever a tensor is expected, an Array stands for a constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "caravan/array/numbers.h"
#include "caravan/base/handle.h"
#include "caravan/base/shape.h"
#include "caravan/ops/dtype.h"

namespace caravan {

// An array of numbers that are known now, in the memory of this process.
class Array {
 public:
  Array() : Array(Shape{}, DType::f32) {}                 // a scalar zero
  explicit Array(Shape shape, DType dtype = DType::f32);  // zeros
  // Values in memory order. A list in braces, and double, become f32 unless another precision is given; other types
  // keep theirs: std::vector<int> gives i32, which is what labels are. A precision that is given converts as `cast`.
  Array(Shape shape, const std::vector<double>& values, DType dtype = DType::f32);
  template <Numbers Values>
  Array(Shape shape, const Values& values)
      : Array(std::move(shape), values,
              std::is_floating_point_v<ElementOf<Values>> ? DType::f32 : dtype_of<ElementOf<Values>>()) {}
  template <Numbers Values>
  Array(Shape shape, const Values& values, DType dtype) : Array(Uninitialized{}, std::move(shape), dtype) {
    using T = ElementOf<Values>;
    if constexpr (kKeptAsIs<T>)
      fill_from(dtype_of<T>(), std::data(values), int64_t(std::size(values)));
    else
      fill_from(dtype_of<T>(), kept(values).data(), int64_t(std::size(values)));
  }
  // The user's memory, without a copy. It must stay, and stay as it is, as long as the array and what is made of it; a
  // change through the array makes a copy first. Types that an array would have to convert do not compile.
  template <Numbers Values>
  static Array view(Shape shape, const Values& values) {
    static_assert(kKeptAsIs<ElementOf<Values>>,
                  "an array cannot view numbers of this type; copy them: Array(shape, values)");
    return lent(std::move(shape), dtype_of<ElementOf<Values>>(), std::data(values), int64_t(std::size(values)));
  }
  template <Numbers Values>
  requires(!std::is_trivially_copyable_v<Values>)  // a temporary that owns its memory
      static Array view(Shape shape, const Values&& values) = delete;

  // Numbers written in the program: refused where `dtype` cannot hold them.
  static Array scalar(double value, DType dtype = DType::f32);
  static Array vector(const std::vector<double>& values, DType dtype = DType::f32);             // one output axis
  static Array matrix(const std::vector<std::vector<double>>& rows, DType dtype = DType::f32);  // two output axes
  static Array rows(const std::vector<double>& values, DType dtype = DType::f32);               // one batch axis
  static Array rows(const std::vector<std::vector<double>>& rows, DType dtype = DType::f32);    // a batch and an output

  const Shape& shape() const { return shape_; }           // the sizes of its axes
  DType dtype() const { return dtype_; }                  // the precision of its elements
  int64_t size() const { return size_; }                  // the number of its elements
  double at(int64_t index) const;                         // flat, in memory order; checked
  double at(std::initializer_list<int64_t> index) const;  // one per axis in memory order; checked
  void set(int64_t index, double value);                  // converts to dtype
  double item() const;                                    // the only element; refused if there are more
  std::vector<double> values() const;                     // all elements in memory order
  // The elements as they lie in memory, without a copy: array.as<float>(); refused where T is not their type.
  template <class T>
  std::span<const T> as() const {
    static_assert(kKeptAsIs<T>, "no array has elements of this type");
    check_type(dtype_of<T>());
    return {static_cast<const T*>(data()), size_t(size_)};
  }
  // Into the caller's memory, converted as by `cast`; refused where the number of elements is another.
  template <class T>
  void copy_to(std::span<T> out) const {
    static_assert(kKeptAsIs<T>, "an array cannot write numbers of this type");
    copy_elements(dtype_of<T>(), out.data(), int64_t(out.size()));
  }
  const void* data() const;  // the packed elements, of type dtype()
  void* mutable_data();      // the same to write to; other copies of the array keep the old elements

  Array cast(DType dtype) const;      // the elements converted, as rule 5 of ops/dtype.h says
  Array reshaped(Shape shape) const;  // the same elements; refused if their number differs
  // The leftmost batch axis n becomes n/size, size; refused if size does not divide n.
  Array batches(int64_t size) const;
  Array map(const std::function<double(double)>& f) const;  // f of each element
  // f of each pair of elements of two arrays of one shape.
  static Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f);
  Array take(const std::vector<int64_t>& rows) const;  // rows along the leftmost axis, in this order
  Array part(int64_t first, int64_t count) const;      // the rows first, first + 1, ..; shares the elements

  // `array[i]` is whatever `slice(array, i)` is for the type of i; tensor/ defines it for a static Index.
  template <class Position>
  auto operator[](const Position& position) const {
    return slice(*this, position);
  }

 private:
  struct Storage;
  struct Uninitialized {};
  Array(Uninitialized, Shape shape, DType dtype);
  static Array lent(Shape shape, DType dtype, const void* data, int64_t count);
  void check_count(int64_t given) const;
  void check_type(DType wanted) const;
  void fill_from(DType from, const void* data, int64_t count);
  void copy_elements(DType to, void* out, int64_t count) const;
  std::byte* writable();  // of a storage of its own

  template <Numbers Values>
  static std::vector<Kept<ElementOf<Values>>> kept(const Values& values) {
    std::vector<Kept<ElementOf<Values>>> out;
    out.reserve(std::size(values));
    for (auto value : values) {
      if constexpr (std::is_unsigned_v<decltype(value)> && sizeof(value) == 8) check_fits(value);
      out.push_back(Kept<ElementOf<Values>>(value));
    }
    return out;
  }
  static void check_fits(uint64_t value);  // into int64_t

  Shape shape_;
  DType dtype_;
  int64_t size_;
  Handle<Storage> bytes_;
  int64_t offset_ = 0;  // in bytes, of the first element in the storage
};

// Literal data. Each inner list is one example: rows({{0, 0}, {0, 1}}) has the shape 2|2, rows({{0}, {1}}) 2|1, and
// rows({0, 1, 1, 0}) is one number for each of four examples, 4|. Labels: rows({0, 2, 1}, DType::i32).
template <int = 0>  // a template, so that {{0}, {1}} is nested for every compiler
Array rows(std::initializer_list<LiteralNumber> values, DType dtype = DType::f32) {
  std::vector<double> list;
  for (const LiteralNumber& n : values) list.push_back(n.value);
  return Array::rows(list, dtype);
}
Array rows(LiteralRows examples, DType dtype = DType::f32);
// Two plain axes: matrix({{1, 2}, {3, 4}}) has the shape 2,2.
Array matrix(LiteralRows lines, DType dtype = DType::f32);

// Arrays of random numbers: a function of the shape and the seed alone.
Array random_normal(Shape shape, uint64_t seed, double mean = 0, double deviation = 1);
Array random_uniform(Shape shape, uint64_t seed, double low = 0, double high = 1);  // in [low, high)
Array random_ids(Shape shape, int64_t range, uint64_t seed);                        // i32 of 0 .. range - 1

// 15, [1 2 3], or nested rows, each innermost row on its line, batch axes outermost: [[1 2]\n [3 4]].
// An axis longer than max_per_axis is shortened with "..". Floats as %.6g, integers in full.
std::ostream& operator<<(std::ostream& out, const Array& array);
std::string to_string(const Array& array, int max_per_axis = 12);  // the text that << prints

}  // namespace caravan
