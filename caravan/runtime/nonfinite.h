// Where NaN or an infinity comes from: the first operation of a program that made one, forward or backward.
#pragma once

#include <iosfwd>
#include <optional>

#include "caravan/runtime/context.h"

namespace caravan {

// An operation whose result is not finite.
struct Nonfinite {
  std::string label;            // "log(x)"; of a gradient "d x"
  std::string formula;          // what it computes at a point: "g * 0.5 / sqrt(x)"; empty for a leaf
  Source where;                 // its line; for a gradient, that of the operation that it goes through
  bool backward = false;        // whether it is a gradient, or computed from one
  Shape shape;                  // the shape of its result
  DType dtype = DType::f32;     // the precision of its result
  int64_t count = 0, nans = 0;  // elements that are not finite, and those of them that are NaN
  std::vector<int64_t> first;   // the position of the first of them, by axis in memory order
  double value = 0;             // the value there
  // An operand and its smallest and largest element.
  struct Range {
    std::string label;         // what the operand is called
    double low = 0, high = 0;  // its smallest and largest finite element
  };
  std::vector<Range> reads;  // its operands
};
std::ostream& operator<<(std::ostream& out, const Nonfinite& found);  // prints where it is and what it reads

// Runs the program once with every intermediate value observed, on the Context's device and in its precision; assigns
// nothing. Found is the first operation, in the order of computation, that has NaN where it reads none, or an infinity
// where it reads finite numbers (one that the program writes as a number, to mask with, is meant). A state or data with
// NaN counts too.
std::optional<Nonfinite> find_nonfinite(const Program& program, Context& ctx, const IndexValues& values = {});

}  // namespace caravan
