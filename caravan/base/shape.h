// The shape of a tensor: three lists of axes, `batch | input -> output`.
//
// Memory order is batch, output, input (input innermost).
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "caravan/base/source.h"

namespace caravan {

enum class RowKind : uint8_t { batch, input, output };  // the three groups of axes
// The groups in the order in which shapes are written.
inline constexpr std::array<RowKind, 3> kRowKinds = {RowKind::batch, RowKind::input, RowKind::output};
// The groups in the order in which elements lie in memory.
inline constexpr std::array<RowKind, 3> kMemoryOrder = {RowKind::batch, RowKind::output, RowKind::input};
std::string_view name(RowKind kind);  // "batch", "input", "output"

// One axis of a shape.
struct Axis {
  Axis() = default;  // an axis of size 0
  // Of any integer, so that {.batch = {n}} takes an int, a size_t, ...
  template <class Number>
  requires std::is_integral_v<Number> Axis(Number size, std::string basis = {})
      : size(int64_t(size)), basis(std::move(basis)) {}

  int64_t size = 0;            // its number of positions
  std::string basis{};         // a tag: axes of equal size with different tags do not match
  bool broadcastable = false;  // true iff size is 1 and the axis may stretch in a pointwise operation
  bool operator==(const Axis&) const = default;
};

using Row = std::vector<Axis>;  // the axes of one group

// Batch axes, input axes, output axes. With sizes known at run time: Shape{.batch = {n}, .output = {28, 28}}.
struct Shape {
  Row batch{}, input{}, output{};  // each may be empty

  Row& operator[](RowKind kind);  // one of the three groups
  const Row& operator[](RowKind kind) const;
  int rank() const { return int(batch.size() + input.size() + output.size()); }  // the number of axes
  int64_t elements() const;            // the product of the sizes; 1 without axes
  std::vector<int64_t> sizes() const;  // in memory order
  bool operator==(const Shape&) const = default;
};

bool same_sizes(const Shape& a, const Shape& b);  // compares sizes only, not tags or `broadcastable`

// The shape as text, "2,8|8->4"; a scalar is "". `Shape{}` has no axes and one element.
std::string to_string(const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Shape& shape);  // prints to_string(shape)
// The inverse of to_string; throws SpecError.
Shape parse_shape(std::string_view text, Source where = Source::here());

}  // namespace caravan
