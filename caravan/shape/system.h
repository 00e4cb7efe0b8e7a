// The constraint system of shape inference: rows and axes as variables, and everything known about them.
//
// A row (one per tensor and kind) has a rank; an axis has a size and a basis. The constraint language is small:
//   R = pre . V . post     pre, post lists of axes, V a row (or two, in gather) or nothing
//   R = list               a known row
//   C = join(A1 .. An)     the only broadcast, aligned at the right
//   arithmetic on axes     window, stride, concatenation, product, factor
// There is no stored inequality. Order means nothing: solve() gives the same result for every permutation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "caravan/base/error.h"
#include "caravan/shape/relation.h"

namespace caravan::shape {

using RowId = int;
using AxisId = int;
using OriginId = int;

// Who says so: a tensor or an operation, for messages.
struct Origin {
  std::string text;
  Source where;
  std::string call{};  // of the library, which the user wrote in place of the operation: "linear fc1"
};

// How a tensor takes part in pointwise operations, which decides how open rows close.
enum class Role : uint8_t {
  number,  // no axes at all
  leaf,    // a parameter or state, or pointwise on such and numbers
  image,   // w(x), or pointwise on images, leaves and numbers with at least one image
  other,
};
enum class Owner : uint8_t { none, parameter, state };

struct RowInfo {
  OriginId origin = 0;
  RowKind kind = RowKind::output;
  Owner owner = Owner::none;
};

struct Equation {  // row = before . variable . second . after
  RowId row = -1;
  std::vector<AxisId> before;
  RowId variable = -1, second = -1;
  std::vector<AxisId> after;
  OriginId origin = 0;
};
struct KnownRow {
  RowId row = -1;
  Row axes;
  OriginId origin = 0;
};
struct JoinConstraint {
  RowId result = -1;
  std::vector<RowId> operands;
  std::vector<Role> roles;
  RowKind kind = RowKind::output;
  OriginId origin = 0;
};
struct SizeFact {
  AxisId axis = -1;
  int64_t size = 0;
  OriginId origin = 0;
  std::string basis;
};
struct IndexFact {  // a fixed index, or the range of a static index
  AxisId axis = -1;
  int64_t index = 0;     // the largest index that meets the axis
  bool written = false;  // in a result: the axis is one longer than the largest index
  bool range = false;    // of a static index: sizes the axis if nothing else does
  OriginId origin = 0;
};
struct Arithmetic {
  enum class Kind : uint8_t { window, strided, sum, product, row_product } kind = Kind::sum;
  AxisId whole = -1;
  std::vector<AxisId> parts;  // window: output, kernel; strided: one; sum: -1 for a run
  std::vector<int64_t> runs;  // sum: length of each run
  int64_t factor = 1;         // product: whole = factor * product of parts
  RowId row = -1;             // row_product: whole = product of the row's sizes
  int64_t stride = 1, dilation = 1, offset = 0, pad = 0;
  Padding padding = Padding::valid;
  bool in_result = false;
  OriginId origin = 0;
};
struct AxisEquality {
  AxisId a = -1, b = -1;
  OriginId origin = 0;
};

// The rows and axes that one relation has in a system.
struct Instance {
  std::vector<std::array<RowId, 3>> slots;
  std::vector<RowId> row_variables;
  std::vector<AxisId> iterators;
};

class System {
 public:
  OriginId add_origin(std::string text, Source where, std::string call = "");
  RowId add_row(RowKind kind, OriginId origin, Owner owner = Owner::none);
  AxisId add_axis(std::string name, OriginId origin);
  AxisId axis_of(const DimRef& dim);  // one variable per captured size

  void know(RowId row, Row sized, OriginId origin) { known.push_back({row, std::move(sized), origin}); }
  void equate(RowId a, RowId b, OriginId origin) { equations.push_back({a, {}, b, -1, {}, origin}); }
  void size(AxisId axis, int64_t n, OriginId origin, std::string basis = "") {
    sizes.push_back({axis, n, origin, std::move(basis)});
  }

  // Adds the constraints of one use of the relation. `roles` has one entry per operand slot.
  Instance instantiate(const Relation& relation, const std::vector<Role>& roles, OriginId origin);

  std::vector<Origin> origins;
  std::vector<RowInfo> rows;
  std::vector<std::pair<std::string, OriginId>> axes;  // name
  std::vector<Equation> equations;
  std::vector<KnownRow> known;
  std::vector<JoinConstraint> joins;
  std::vector<SizeFact> sizes;
  std::vector<IndexFact> indices;
  std::vector<Arithmetic> arithmetic;
  std::vector<AxisEquality> equalities;
  std::map<DimRef, AxisId> dims;

 private:
  AxisId axis(const Relation& relation, const AxisPattern& pattern, const Instance& instance, bool in_result,
              OriginId origin);
};

std::string to_string(const System& system);  // one constraint a line

// The solved system. Axes of rows are classes: equal numbers mean the same size and basis for the same reason.
struct Solution {
  struct Class {
    int64_t size = -1;
    std::string basis;
    bool broadcastable = false;
  };
  std::vector<Class> classes;
  std::vector<int> axis_class;             // by AxisId of the system
  std::vector<std::vector<int>> row_axes;  // by RowId: classes

  int64_t size(AxisId axis) const { return classes[size_t(axis_class[size_t(axis)])].size; }
  Row row(RowId row) const;
};

// Constraints that contradict each other, or do not suffice, and the operation in which they met.
class MisfitError : public ShapeError {
 public:
  MisfitError(const std::string& message, OriginId at, Source where) : ShapeError(message, where), at_(at) {}
  OriginId at() const { return at_; }

 private:
  OriginId at_;
};

// An axis of a spec whose size nothing determines.
class UnsizedAxisError : public MisfitError {
 public:
  UnsizedAxisError(std::string problem, std::string axis, OriginId at, Source where)
      : MisfitError(problem + "; bind it at the call, {\"" + axis + "\", n}, or size a tensor that has it.", at, where),
        problem_(std::move(problem)),
        axis_(std::move(axis)) {}
  const std::string& problem() const { return problem_; }  // without the advice
  const std::string& axis() const { return axis_; }        // its name, or "n"

 private:
  std::string problem_, axis_;
};

// Throws ShapeError; the system is not changed.
Solution solve(const System& system);

}  // namespace caravan::shape
