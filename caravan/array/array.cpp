#include "caravan/array/array.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <ostream>

#include "caravan/base/error.h"
#include "caravan/base/memory_error.h"

namespace caravan {

namespace {

std::string quoted(const Shape& shape) { return "\"" + to_string(shape) + "\""; }

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// shape.elements(), refused where an axis is negative or the bytes cannot be counted.
int64_t counted(const Shape& shape, DType dtype) {
  int64_t n = bytes(dtype);
  for (int64_t size : shape.sizes()) {
    if (size < 0)
      throw ShapeError("an array of shape " + quoted(shape) + " cannot be: the size " + std::to_string(size) +
                       " is negative.");
    if (__builtin_mul_overflow(n, size, &n))
      throw ShapeError("an array of shape " + quoted(shape) + " and precision " + std::string(name(dtype)) +
                       " has more than 2^63 bytes.");
  }
  return n / bytes(dtype);
}

// Rule 6 of dtype.h, for numbers written in the program.
double held(DType dtype, double value) {
  if (!can_hold(dtype, value))
    throw DTypeError("the number " + number(value) + " does not fit " + std::string(name(dtype)) +
                     "; choose a wider precision, or make the array as f64 and `cast` it.");
  return value;
}

// The leftmost axis in memory order.
Axis& leftmost(Shape& shape) {
  for (RowKind kind : kMemoryOrder)
    if (!shape[kind].empty()) return shape[kind].front();
  throw ShapeError("a scalar has no axis to take rows of.");
}

Shape outputs(std::initializer_list<int64_t> sizes) {
  Shape shape;
  for (int64_t size : sizes) shape.output.push_back({.size = size, .basis = {}});
  return shape;
}

}  // namespace

Array::Array(Shape shape, DType dtype)
    : shape_(std::move(shape)), dtype_(dtype), size_(counted(shape_, dtype)), bytes_("an Array", nullptr) {
  const int64_t needed = size_ * bytes(dtype);
  try {
    bytes_ = {"an Array", std::make_shared<std::vector<std::byte>>(size_t(needed))};
  } catch (const std::bad_alloc&) {
    throw MemoryError("there is not enough memory for an array of " + std::string(name(dtype)) + " of shape " +
                      (shape_.rank() == 0 ? "()" : to_string(shape_)) + ", " + std::to_string(needed) + " bytes.");
  }
}

Array::Array(Shape shape, const std::vector<double>& values, DType dtype) : Array(std::move(shape), dtype) {
  if (int64_t(values.size()) != size_)
    throw ShapeError("an array of shape " + quoted(shape_) + " has " + std::to_string(size_) + " elements, but " +
                     std::to_string(values.size()) + " values were given.");
  for (int64_t i = 0; i < size_; ++i) store(dtype_, bytes_->data(), i, values[size_t(i)]);
}

Array Array::scalar(double value, DType dtype) { return Array(Shape{}, {held(dtype, value)}, dtype); }

Array Array::vector(const std::vector<double>& values, DType dtype) {
  for (double value : values) held(dtype, value);
  return Array(outputs({int64_t(values.size())}), values, dtype);
}

Array Array::matrix(const std::vector<std::vector<double>>& rows, DType dtype) {
  const size_t columns = rows.empty() ? 0 : rows[0].size();
  std::vector<double> values;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() != columns)
      throw ShapeError("the rows of a matrix must be equally long: row 0 has " + std::to_string(columns) +
                       " values, row " + std::to_string(i) + " has " + std::to_string(rows[i].size()) + ".");
    for (double value : rows[i]) values.push_back(held(dtype, value));
  }
  return Array(outputs({int64_t(rows.size()), int64_t(columns)}), values, dtype);
}

Array Array::from_floats(Shape shape, const float* data) {
  Array out(std::move(shape), DType::f32);
  if (out.size_ > 0) std::memcpy(out.bytes_->data(), data, out.bytes_->size());
  return out;
}

Array Array::from_bytes(Shape shape, const uint8_t* data) {
  Array out(std::move(shape), DType::u8);
  if (out.size_ > 0) std::memcpy(out.bytes_->data(), data, out.bytes_->size());
  return out;
}

double Array::at(int64_t index) const {
  if (index < 0 || index >= size_)
    throw StateError("element " + std::to_string(index) + " of an array of shape " + quoted(shape_) + ", which has " +
                     std::to_string(size_) + (size_ == 1 ? " element." : " elements."));
  return load(dtype_, bytes_->data(), index);
}

double Array::at(std::initializer_list<int64_t> index) const {
  const std::vector<int64_t> sizes = shape_.sizes();
  if (index.size() != sizes.size())
    throw StateError(std::to_string(index.size()) + " positions were given for an array of shape " + quoted(shape_) +
                     ", which has " + std::to_string(sizes.size()) + " axes.");
  int64_t flat = 0;
  size_t axis = 0;
  for (int64_t i : index) {
    if (i < 0 || i >= sizes[axis])
      throw StateError("position " + std::to_string(i) + " on axis " + std::to_string(axis) + " of an array of shape " +
                       quoted(shape_) + ", where that axis has size " + std::to_string(sizes[axis]) +
                       " (axes are counted in memory order: batch, output, input).");
    flat = flat * sizes[axis++] + i;
  }
  return load(dtype_, bytes_->data(), flat);
}

void Array::set(int64_t index, double value) {
  at(index);  // checks
  store(dtype_, mutable_data(), index, value);
}

double Array::item() const {
  if (size_ != 1)
    throw ShapeError("item() needs exactly one element, but an array of shape " + quoted(shape_) + " has " +
                     std::to_string(size_) + ".");
  return at(0);
}

std::vector<double> Array::values() const {
  std::vector<double> out(static_cast<size_t>(size_));
  for (int64_t i = 0; i < size_; ++i) out[size_t(i)] = load(dtype_, bytes_->data(), i);
  return out;
}

const void* Array::data() const { return bytes_->data(); }

void* Array::mutable_data() {
  if (bytes_.shared().use_count() > 1) bytes_ = {"an Array", std::make_shared<std::vector<std::byte>>(*bytes_)};
  return bytes_->data();
}

Array Array::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  Array out(shape_, dtype);
  const bool integers = !is_float(dtype) && !is_float(dtype_);  // which i64 has more of than double
  for (int64_t i = 0; i < size_; ++i)
    if (integers)
      store_integer(dtype, out.bytes_->data(), i, saturated(dtype, load_integer(dtype_, bytes_->data(), i)));
    else if (dtype_ == DType::i64 && dtype == DType::f32)  // rounded once
      store(dtype, out.bytes_->data(), i, double(float(load_integer(dtype_, bytes_->data(), i))));
    else
      store(dtype, out.bytes_->data(), i, load(dtype_, bytes_->data(), i));
  return out;
}

Array Array::reshaped(Shape shape) const {
  const int64_t n = counted(shape, dtype_);
  if (n != size_)
    throw ShapeError("an array of shape " + quoted(shape_) + " has " + std::to_string(size_) +
                     " elements and cannot become " + quoted(shape) + ", which has " + std::to_string(n) + ".");
  Array out = *this;
  out.shape_ = std::move(shape);
  return out;
}

Array Array::batches(int64_t size) const {
  if (shape_.batch.empty())
    throw ShapeError("batches(" + std::to_string(size) + ") needs a batch axis, but the shape is " + quoted(shape_) +
                     ".");
  const Axis axis = shape_.batch.front();
  if (size <= 0 || axis.size % size != 0)
    throw ShapeError("batches(" + std::to_string(size) + ") of an array of shape " + quoted(shape_) + ": " +
                     std::to_string(size) + " does not divide the " + std::to_string(axis.size) +
                     " rows; take(...) a number of rows that it divides.");
  Shape shape = shape_;
  shape.batch.front().size = size;
  shape.batch.insert(shape.batch.begin(), Axis{.size = axis.size / size, .basis = {}});
  return reshaped(std::move(shape));
}

Array Array::map(const std::function<double(double)>& f) const {
  Array out(shape_, dtype_);
  for (int64_t i = 0; i < size_; ++i) store(dtype_, out.bytes_->data(), i, f(load(dtype_, bytes_->data(), i)));
  return out;
}

Array Array::zip(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  if (!same_sizes(a.shape_, b.shape_))
    throw ShapeError("zip needs two arrays of one shape, but these have the shapes " + quoted(a.shape_) + " and " +
                     quoted(b.shape_) + ".");
  Array out(a.shape_, promote(a.dtype_, b.dtype_));
  for (int64_t i = 0; i < a.size_; ++i)
    store(out.dtype_, out.bytes_->data(), i,
          f(load(a.dtype_, a.bytes_->data(), i), load(b.dtype_, b.bytes_->data(), i)));
  return out;
}

Array Array::take(const std::vector<int64_t>& rows) const {
  Shape shape = shape_;
  Axis& axis = leftmost(shape);
  const int64_t available = axis.size;
  axis.size = int64_t(rows.size());
  if (axis.size != 1) axis.broadcastable = false;
  Array out(std::move(shape), dtype_);
  const size_t row_bytes = available == 0 ? 0 : bytes_->size() / size_t(available);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= available)
      throw StateError("row " + std::to_string(rows[i]) + " of an array of shape " + quoted(shape_) +
                       ", whose leftmost axis has " + std::to_string(available) + " rows.");
    if (row_bytes > 0)
      std::memcpy(out.bytes_->data() + i * row_bytes, bytes_->data() + size_t(rows[i]) * row_bytes, row_bytes);
  }
  return out;
}

namespace {

class Printer {
 public:
  Printer(const Array& array, int max_per_axis)
      : array_(array), sizes_(array.shape().sizes()), max_(std::max(2, max_per_axis)) {}

  std::string run() {
    axis(0, 0);
    return std::move(out_);
  }

 private:
  // Everything below axis `depth` whose elements start at `first`, in units of the axes from `depth` on.
  void axis(size_t depth, int64_t first) {
    if (depth == sizes_.size()) {
      out_ += element(first);
      return;
    }
    const int64_t n = sizes_[depth];
    const bool innermost = depth + 1 == sizes_.size();
    const std::string between =
        innermost ? " " : std::string(sizes_.size() - 1 - depth, '\n') + std::string(depth + 1, ' ');
    out_ += '[';
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) out_ += between;
      if (n > max_ && i == (max_ + 1) / 2) {
        out_ += "..";
        i = n - max_ / 2 - 1;
        continue;
      }
      axis(depth + 1, first * n + i);
    }
    out_ += ']';
  }

  // Integers in full, the others with six digits.
  std::string element(int64_t index) const {
    if (is_float(array_.dtype())) return number(array_.at(index));
    if (array_.dtype() != DType::i64) return std::to_string(int64_t(array_.at(index)));
    int64_t value;
    std::memcpy(&value, static_cast<const std::byte*>(array_.data()) + index * 8, 8);
    return std::to_string(value);
  }

  const Array& array_;
  std::vector<int64_t> sizes_;
  int64_t max_;
  std::string out_;
};

}  // namespace

std::string to_string(const Array& array, int max_per_axis) { return Printer(array, max_per_axis).run(); }

std::ostream& operator<<(std::ostream& out, const Array& array) { return out << to_string(array); }

}  // namespace caravan
