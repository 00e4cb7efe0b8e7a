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
#include "caravan/base/source.h"
#include "caravan/ops/dtype.h"

namespace caravan {

// An array of numbers that are known now, in the memory of this process.
class Array {
 public:
  Array() : Array(Shape{}, DType::f32) {}                                                // a scalar zero
  explicit Array(Shape shape, DType dtype = DType::f32, Source where = Source::here());  // zeros
  // Values in memory order. A list in braces, and double, become f32 unless another precision is given; other types
  // keep theirs: std::vector<int> gives i32, which is what labels are. A precision that is given converts as `cast`.
  Array(Shape shape, const std::vector<double>& values, DType dtype = DType::f32, Source where = Source::here());
  template <Numbers Values>
  Array(Shape shape, const Values& values, Source where = Source::here())
      : Array(std::move(shape), values,
              std::is_floating_point_v<ElementOf<Values>> ? DType::f32 : dtype_of<ElementOf<Values>>(), where) {}
  template <Numbers Values>
  Array(Shape shape, const Values& values, DType dtype, Source where = Source::here())
      : Array(Uninitialized{}, std::move(shape), dtype, where) {
    using T = ElementOf<Values>;
    if constexpr (kKeptAsIs<T>)
      fill_from(dtype_of<T>(), std::data(values), int64_t(std::size(values)), where);
    else
      fill_from(dtype_of<T>(), kept(values, where).data(), int64_t(std::size(values)), where);
  }
  // The user's memory, without a copy. It must stay, and stay as it is, as long as the array and what is made of it; a
  // change through the array makes a copy first. Types that an array would have to convert do not compile.
  template <Numbers Values>
  static Array view(Shape shape, const Values& values, Source where = Source::here()) {
    static_assert(kKeptAsIs<ElementOf<Values>>,
                  "an array cannot view numbers of this type; copy them: Array(shape, values)");
    return lent(std::move(shape), dtype_of<ElementOf<Values>>(), std::data(values), int64_t(std::size(values)), where);
  }
  template <Numbers Values>
  requires(!std::is_trivially_copyable_v<Values>)  // a temporary that owns its memory
      static Array view(Shape shape, const Values&& values) = delete;

  // Numbers written in the program: refused where `dtype` cannot hold them.
  static Array scalar(double value, DType dtype = DType::f32, Source where = Source::here());
  // One output axis.
  static Array vector(const std::vector<double>& values, DType dtype = DType::f32, Source where = Source::here());
  // Two output axes.
  static Array matrix(const std::vector<std::vector<double>>& rows, DType dtype = DType::f32,
                      Source where = Source::here());
  // One batch axis; a batch axis and an output axis.
  static Array rows(const std::vector<double>& values, DType dtype = DType::f32, Source where = Source::here());
  static Array rows(const std::vector<std::vector<double>>& rows, DType dtype = DType::f32,
                    Source where = Source::here());

  const Shape& shape() const { return shape_; }                      // the sizes of its axes
  DType dtype() const { return dtype_; }                             // the precision of its elements
  int64_t size() const { return size_; }                             // the number of its elements
  double at(int64_t index, Source where = Source::exactly()) const;  // flat, in memory order; checked
  // One index for each axis, in memory order; checked.
  double at(std::initializer_list<int64_t> index, Source where = Source::exactly()) const;
  void set(int64_t index, double value, Source where = Source::exactly());  // converts to dtype
  double item(Source where = Source::exactly()) const;  // the only element; refused if there are more
  std::vector<double> values() const;                   // all elements in memory order
  // The elements as they lie in memory, without a copy: array.as<float>(); refused where T is not their type.
  template <class T>
  std::span<const T> as(Source where = Source::here()) const {
    static_assert(kKeptAsIs<T>, "no array has elements of this type");
    check_type(dtype_of<T>(), where);
    return {static_cast<const T*>(data()), size_t(size_)};
  }
  // Into the caller's memory, converted as by `cast`; refused where the number of elements is another.
  template <class T>
  void copy_to(std::span<T> out, Source where = Source::here()) const {
    static_assert(kKeptAsIs<T>, "an array cannot write numbers of this type");
    copy_elements(dtype_of<T>(), out.data(), int64_t(out.size()), where);
  }
  const void* data() const;  // the packed elements, of type dtype()
  void* mutable_data();      // the same to write to; other copies of the array keep the old elements

  Array cast(DType dtype) const;  // the elements converted, as rule 5 of ops/dtype.h says
  // The same elements; refused if their number differs.
  Array reshaped(Shape shape, Source where = Source::here()) const;
  // The leftmost batch axis n becomes n/size, size; refused if size does not divide n. (For a last batch that is
  // smaller: data::batches.)
  Array batches(int64_t size, Source where = Source::here()) const;
  Array map(const std::function<double(double)>& f) const;  // f of each element
  // f of each pair of elements of two arrays of one shape.
  static Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f,
                   Source where = Source::here());
  // These positions of the leftmost axis, in this order: for a batch, these examples.
  Array take(const std::vector<int64_t>& positions, Source where = Source::here()) const;
  // The positions first, first + 1, .. of the leftmost axis; shares the elements.
  Array part(int64_t first, int64_t count, Source where = Source::here()) const;

  // `array[i]` is whatever `slice(array, i)` is for the type of i; tensor/ defines it for a static Index.
  template <class Position>
  auto operator[](const Position& position) const {
    return slice(*this, position);
  }

 private:
  struct Storage;
  struct Uninitialized {};
  Array(Uninitialized, Shape shape, DType dtype, Source where);
  static Array lent(Shape shape, DType dtype, const void* data, int64_t count, Source where);
  void check_count(int64_t given, Source where) const;
  void check_type(DType wanted, Source where) const;
  void fill_from(DType from, const void* data, int64_t count, Source where);
  void copy_elements(DType to, void* out, int64_t count, Source where) const;
  std::byte* writable();  // of a storage of its own

  template <Numbers Values>
  static std::vector<Kept<ElementOf<Values>>> kept(const Values& values, Source where) {
    std::vector<Kept<ElementOf<Values>>> out;
    out.reserve(std::size(values));
    for (auto value : values) {
      if constexpr (std::is_unsigned_v<decltype(value)> && sizeof(value) == 8) check_fits(value, where);
      out.push_back(Kept<ElementOf<Values>>(value));
    }
    return out;
  }
  static void check_fits(uint64_t value, Source where);  // into int64_t

  Shape shape_;
  DType dtype_;
  int64_t size_;
  Handle<Storage> bytes_;
  int64_t offset_ = 0;  // in bytes, of the first element in the storage
};

// Literal data. Each inner list is one example: rows({{0, 0}, {0, 1}}) has the shape 2|2, rows({{0}, {1}}) 2|1, and
// rows({0, 1, 1, 0}) is one number for each of four examples, 4|. Labels: rows({0, 2, 1}, DType::i32).
template <int = 0>  // a template, so that {{0}, {1}} is nested for every compiler
Array rows(std::initializer_list<LiteralNumber> values, DType dtype = DType::f32, Source where = Source::here()) {
  std::vector<double> list;
  for (const LiteralNumber& n : values) list.push_back(n.value);
  return Array::rows(list, dtype, where);
}
Array rows(LiteralRows examples, DType dtype = DType::f32, Source where = Source::here());
// Two plain axes: matrix({{1, 2}, {3, 4}}) has the shape 2,2.
Array matrix(LiteralRows lines, DType dtype = DType::f32, Source where = Source::here());

// Arrays of random numbers: a function of the shape and the seed alone.
Array random_normal(Shape shape, uint64_t seed, double mean = 0, double deviation = 1, Source where = Source::here());
// In [low, high).
Array random_uniform(Shape shape, uint64_t seed, double low = 0, double high = 1, Source where = Source::here());
// i32 of 0 .. range - 1.
Array random_ids(Shape shape, int64_t range, uint64_t seed, Source where = Source::here());

// 15, [1 2 3], or nested rows, each innermost row on its line, batch axes outermost: [[1 2]\n [3 4]].
// An axis longer than max_per_axis is shortened with "..". Floats as %.6g, integers in full.
std::ostream& operator<<(std::ostream& out, const Array& array);
std::string to_string(const Array& array, int max_per_axis = 12);  // the text that << prints

}  // namespace caravan
