#include "caravan/array/array.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ostream>

#include "caravan/array/convert.h"
#include "caravan/base/error.h"
#include "caravan/base/memory_error.h"

namespace caravan {

namespace {

// Throws the error with the user's line.
template <class Problem>
[[noreturn]] void refuse(const std::string& message, Source where) {
  const WrittenAt at(Source::here(where));
  throw Problem(message);
}

std::string quoted(const Shape& shape) { return "\"" + to_string(shape) + "\""; }

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// shape.elements(), refused where an axis is negative or the bytes cannot be counted.
int64_t counted(const Shape& shape, DType dtype, Source where) {
  int64_t n = bytes(dtype);
  for (int64_t size : shape.sizes()) {
    if (size < 0)
      refuse<ShapeError>(
          "an array of shape " + quoted(shape) + " cannot be: the size " + std::to_string(size) + " is negative.",
          where);
    if (__builtin_mul_overflow(n, size, &n))
      refuse<ShapeError>("an array of shape " + quoted(shape) + " and precision " + std::string(name(dtype)) +
                             " has more than 2^63 bytes.",
                         where);
  }
  return n / bytes(dtype);
}

// Rule 6 of dtype.h, for numbers written in the program.
double held(DType dtype, double value, Source where) {
  if (!can_hold(dtype, value))
    refuse<DTypeError>("the number " + number(value) + " does not fit " + std::string(name(dtype)) +
                           "; choose a wider precision, or make the array as f64 and `cast` it.",
                       where);
  return value;
}

// The leftmost axis in memory order.
Axis& leftmost(Shape& shape, Source where) {
  for (RowKind kind : kMemoryOrder)
    if (!shape[kind].empty()) return shape[kind].front();
  refuse<ShapeError>("a single number has no axis to take a part of.", where);
}

// The elements of lists that must be equally long; `each` is what one of them is.
std::vector<double> joined(const std::vector<std::vector<double>>& lists, DType dtype, const std::string& each,
                           Source where) {
  std::vector<double> out;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].size() != lists[0].size())
      refuse<ShapeError>("every " + each + " must have as many values as the first: " + each + " 0 has " +
                             std::to_string(lists[0].size()) + ", " + each + " " + std::to_string(i) + " has " +
                             std::to_string(lists[i].size()) + ".",
                         where);
    for (double value : lists[i]) out.push_back(held(dtype, value, where));
  }
  return out;
}

}  // namespace

struct Array::Storage {
  std::byte* memory = nullptr;
  bool lent = false;  // the user's: never written, never freed

  Storage() = default;
  Storage(const Storage&) = delete;
  ~Storage() {
    if (!lent) std::free(memory);
  }
};

namespace {

std::byte* allocated(const Shape& shape, DType dtype, int64_t needed, bool zeros) {
  const size_t n = size_t(std::max<int64_t>(needed, 1));
  void* memory = zeros ? std::calloc(n, 1) : std::malloc(n);  // calloc: large ones are zero pages of the system
  if (!memory)
    throw MemoryError("there is not enough memory for an array of " + std::string(name(dtype)) + " of shape " +
                      (shape.rank() == 0 ? "()" : to_string(shape)) + ", " + std::to_string(needed) + " bytes.");
  return static_cast<std::byte*>(memory);
}

}  // namespace

Array::Array(Uninitialized, Shape shape, DType dtype, Source where)
    : shape_(std::move(shape)),
      dtype_(dtype),
      size_(counted(shape_, dtype, where)),
      bytes_("an Array", std::make_shared<Storage>()) {
  bytes_->memory = allocated(shape_, dtype_, size_ * bytes(dtype_), false);
}

Array::Array(Shape shape, DType dtype, Source where)
    : shape_(std::move(shape)),
      dtype_(dtype),
      size_(counted(shape_, dtype, where)),
      bytes_("an Array", std::make_shared<Storage>()) {
  bytes_->memory = allocated(shape_, dtype_, size_ * bytes(dtype_), true);
}

Array::Array(Shape shape, const std::vector<double>& values, DType dtype, Source where)
    : Array(Uninitialized{}, std::move(shape), dtype, where) {
  fill_from(DType::f64, values.data(), int64_t(values.size()), where);
}

Array Array::lent(Shape shape, DType dtype, const void* data, int64_t count, Source where) {
  auto storage = std::make_shared<Storage>();
  storage->memory = static_cast<std::byte*>(const_cast<void*>(data));  // `writable` makes a copy before a change
  storage->lent = true;
  Array out(Shape{}, dtype);
  out.size_ = counted(shape, dtype, where);
  out.shape_ = std::move(shape);
  out.bytes_ = {"an Array", std::move(storage)};
  out.check_count(count, where);
  return out;
}

void Array::check_count(int64_t given, Source where) const {
  if (given != size_)
    refuse<ShapeError>("an array of shape " + quoted(shape_) + " has " + std::to_string(size_) + " elements, but " +
                           std::to_string(given) + (given == 1 ? " value was given." : " values were given."),
                       where);
}
void Array::check_type(DType wanted, Source where) const {
  if (wanted != dtype_)
    refuse<DTypeError>("the elements of this array are " + std::string(name(dtype_)) + ", not " +
                           std::string(name(wanted)) + "; `cast` the array first, or use `copy_to`, which converts.",
                       where);
}
void Array::check_fits(uint64_t value, Source where) {
  if (value > uint64_t(std::numeric_limits<int64_t>::max()))
    refuse<DTypeError>("the number " + std::to_string(value) + " does not fit i64.", where);
}

void Array::fill_from(DType from, const void* data, int64_t count, Source where) {
  check_count(count, where);
  convert_elements(from, data, dtype_, bytes_->memory, count);
}
void Array::copy_elements(DType to, void* out, int64_t count, Source where) const {
  if (count != size_)
    refuse<ShapeError>("an array of shape " + quoted(shape_) + " has " + std::to_string(size_) +
                           " elements; it cannot be copied to memory of " + std::to_string(count) + ".",
                       where);
  convert_elements(dtype_, data(), to, out, count);
}

Array Array::scalar(double value, DType dtype, Source where) {
  return Array(Shape{}, {held(dtype, value, where)}, dtype);
}

Array Array::vector(const std::vector<double>& values, DType dtype, Source where) {
  for (double value : values) held(dtype, value, where);
  return Array({.output = {values.size()}}, values, dtype);
}
Array Array::rows(const std::vector<double>& values, DType dtype, Source where) {
  for (double value : values) held(dtype, value, where);
  return Array({.batch = {values.size()}}, values, dtype);
}
Array Array::matrix(const std::vector<std::vector<double>>& rows, DType dtype, Source where) {
  const std::vector<double> values = joined(rows, dtype, "row", where);
  return Array({.output = {rows.size(), rows.empty() ? 0 : rows[0].size()}}, values, dtype);
}
Array Array::rows(const std::vector<std::vector<double>>& rows, DType dtype, Source where) {
  const std::vector<double> values = joined(rows, dtype, "example", where);
  return Array({.batch = {rows.size()}, .output = {rows.empty() ? 0 : rows[0].size()}}, values, dtype);
}

namespace {
std::vector<std::vector<double>> lists(LiteralRows rows) {
  std::vector<std::vector<double>> out;
  for (const auto& row : rows) {
    out.emplace_back();
    for (const LiteralNumber& n : row) out.back().push_back(n.value);
  }
  return out;
}
}  // namespace
Array rows(LiteralRows examples, DType dtype, Source where) { return Array::rows(lists(examples), dtype, where); }
Array matrix(LiteralRows lines, DType dtype, Source where) { return Array::matrix(lists(lines), dtype, where); }

double Array::at(int64_t index, Source where) const {
  if (index < 0 || index >= size_)
    refuse<StateError>("element " + std::to_string(index) + " of an array of shape " + quoted(shape_) + ", which has " +
                           std::to_string(size_) + (size_ == 1 ? " element." : " elements."),
                       where);
  return load(dtype_, data(), index);
}

double Array::at(std::initializer_list<int64_t> index, Source where) const {
  const std::vector<int64_t> sizes = shape_.sizes();
  if (index.size() != sizes.size())
    refuse<StateError>(std::to_string(index.size()) + " positions were given for an array of shape " + quoted(shape_) +
                           ", which has " + std::to_string(sizes.size()) + " axes.",
                       where);
  int64_t flat = 0;
  size_t axis = 0;
  for (int64_t i : index) {
    if (i < 0 || i >= sizes[axis])
      refuse<StateError>("position " + std::to_string(i) + " on axis " + std::to_string(axis) +
                             " of an array of shape " + quoted(shape_) + ", where that axis has size " +
                             std::to_string(sizes[axis]) + " (axes are counted in memory order: batch, output, input).",
                         where);
    flat = flat * sizes[axis++] + i;
  }
  return load(dtype_, data(), flat);
}

void Array::set(int64_t index, double value, Source where) {
  at(index, where);  // checks
  store(dtype_, mutable_data(), index, value);
}

double Array::item(Source where) const {
  if (size_ != 1)
    refuse<ShapeError>("item() needs exactly one element, but an array of shape " + quoted(shape_) + " has " +
                           std::to_string(size_) + ".",
                       where);
  return load(dtype_, data(), 0);
}

std::vector<double> Array::values() const {
  std::vector<double> out(static_cast<size_t>(size_));
  convert_elements(dtype_, data(), DType::f64, out.data(), size_);
  return out;
}

const void* Array::data() const { return bytes_->memory + offset_; }

std::byte* Array::writable() {
  if (bytes_.shared().use_count() > 1 || bytes_->lent) {
    Array copy(Uninitialized{}, shape_, dtype_, {});
    copy.fill_from(dtype_, data(), size_, {});
    *this = std::move(copy);
  }
  return bytes_->memory + offset_;
}
void* Array::mutable_data() { return writable(); }

Array Array::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  Array out(Uninitialized{}, shape_, dtype, {});
  out.fill_from(dtype_, data(), size_, {});
  return out;
}

Array Array::reshaped(Shape shape, Source where) const {
  const int64_t n = counted(shape, dtype_, where);
  if (n != size_)
    refuse<ShapeError>("an array of shape " + quoted(shape_) + " has " + std::to_string(size_) +
                           " elements and cannot become " + quoted(shape) + ", which has " + std::to_string(n) + ".",
                       where);
  Array out = *this;
  out.shape_ = std::move(shape);
  return out;
}

Array Array::batches(int64_t size, Source where) const {
  if (shape_.batch.empty())
    refuse<ShapeError>("batches(" + std::to_string(size) + ") needs a batch axis, but the shape is " + quoted(shape_) +
                           "; rows({..}) makes a batch of what it is given.",
                       where);
  const Axis axis = shape_.batch.front();
  if (size <= 0)
    refuse<ShapeError>("batches(" + std::to_string(size) + "): give a positive number of examples.", where);
  if (const int64_t rest = axis.size % size; rest != 0)
    refuse<ShapeError>("batches(" + std::to_string(size) + ") of an array of shape " + quoted(shape_) + ": " +
                           std::to_string(size) + " does not divide the " + std::to_string(axis.size) +
                           " examples. data::batches({x, y}, " + std::to_string(size) +
                           ") has a last batch of the rest, and a Function takes every size; part(0, " +
                           std::to_string(axis.size - rest) + ") leaves the rest out.",
                       where);
  Shape shape = shape_;
  shape.batch.front().size = size;
  shape.batch.insert(shape.batch.begin(), Axis(axis.size / size));
  return reshaped(std::move(shape));
}

Array Array::map(const std::function<double(double)>& f) const {
  Array out(shape_, dtype_);
  for (int64_t i = 0; i < size_; ++i) store(dtype_, out.bytes_->memory, i, f(load(dtype_, data(), i)));
  return out;
}

Array Array::zip(const Array& a, const Array& b, const std::function<double(double, double)>& f, Source where) {
  if (!same_sizes(a.shape_, b.shape_))
    refuse<ShapeError>("zip needs two arrays of one shape, but these have the shapes " + quoted(a.shape_) + " and " +
                           quoted(b.shape_) + ".",
                       where);
  Array out(a.shape_, promote(a.dtype_, b.dtype_));
  for (int64_t i = 0; i < a.size_; ++i)
    store(out.dtype_, out.bytes_->memory, i, f(load(a.dtype_, a.data(), i), load(b.dtype_, b.data(), i)));
  return out;
}

Array Array::take(const std::vector<int64_t>& positions, Source where) const {
  Shape shape = shape_;
  Axis& axis = leftmost(shape, where);
  const int64_t available = axis.size;
  axis.size = int64_t(positions.size());
  if (axis.size != 1) axis.broadcastable = false;
  Array out(Uninitialized{}, std::move(shape), dtype_, where);
  const size_t each = available == 0 ? 0 : size_t(size_ / available * bytes(dtype_));  // bytes of a position
  const auto* from = static_cast<const std::byte*>(data());
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || positions[i] >= available)
      refuse<StateError>("take of position " + std::to_string(positions[i]) + " of an array of shape " +
                             quoted(shape_) + ", whose leftmost axis has size " + std::to_string(available) + ".",
                         where);
    if (each > 0) std::memcpy(out.bytes_->memory + i * each, from + size_t(positions[i]) * each, each);
  }
  return out;
}

Array Array::part(int64_t first, int64_t count, Source where) const {
  Array out = *this;
  Axis& axis = leftmost(out.shape_, where);
  const int64_t available = axis.size;
  if (first < 0 || count < 0 || first > available || count > available - first)
    refuse<StateError>("part(" + std::to_string(first) + ", " + std::to_string(count) + ") of an array of shape " +
                           quoted(shape_) + ", whose leftmost axis has size " + std::to_string(available) + ".",
                       where);
  axis.size = count;
  if (count != 1) axis.broadcastable = false;
  const int64_t each = available == 0 ? 0 : size_ / available;
  out.size_ = count * each;
  out.offset_ += first * each * bytes(dtype_);
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
