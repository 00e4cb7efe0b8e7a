// Pictures of runs: a curve, and points with a decision boundary; as characters for a terminal and as SVG for a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "caravan/array/array.h"

namespace caravan::plot {

// On a logarithmic axis what is not above 0 is marked on the bottom line: `○` as text, a ring in an SVG.
enum class Axis : uint8_t { linear, logarithmic };

// Another quantity of the same run, with an axis of its own at the right.
struct Beside {
  struct Point {              // one value
    double x = 0, value = 0;  // x as the curve counts it
  };
  std::string name;           // "accuracy, %"
  std::vector<Point> points;  // none: there is nothing beside the curve
};

// Values over steps.
struct Curve {
  std::string title, x_label;  // "Loss", "epoch"
  std::vector<double> values;  // at x_step, 2 x_step, ..; what is not finite, or beyond 1e300, leaves a gap
  Axis axis = Axis::linear;    // of the values
  int64_t x_step = 1;          // the distance of neighbouring values
  int64_t x_last = 0;      // where the last value lies, if the last stretch is shorter than the others; 0: it is not
  bool from_zero = false;  // a linear axis has 0 on it, so that heights can be compared
  Beside beside{};         // drawn with an axis at the right
  int64_t last() const;    // the x of the last value
};
std::string text(const Curve& curve, int width = 64, int height = 12);  // `•` for the values, `+` for what is beside
std::string svg(const Curve& curve);                                    // with the last value as a number

// The same in one line of at most `width` characters, from ▁ to █; logarithmic where no value is 0 or less.
std::string sparkline(const std::vector<double>& values, int width);

// A rectangle of the plane and the cells it is divided into; rows are counted from the top.
struct Frame {
  double left = 0, right = 1, bottom = 0, top = 1;  // the rectangle
  int width = 1, height = 1;                        // the number of cells across and down
  double x(int column) const { return left + (right - left) * (column + 0.5) / width; }  // of a cell's centre
  double y(int row) const { return top - (top - bottom) * (row + 0.5) / height; }        // of a cell's centre
  std::optional<size_t> cell(double x, double y) const;  // that holds a point, counted row by row; none outside
  std::string lines(const std::string& cells) const;     // a character for each cell, as indented lines
  Array centres() const;                                 // of the cells, row by row: width*height|2
};

// Points of two classes over the plane that a model divides.
struct Scatter {
  std::string title;  // above the picture
  Frame frame;        // the part of the plane that is drawn
  Array points;       // n|2
  Array labels;       // n: the sign is the class
  Array scores;       // of each cell, row by row; the boundary is where they change sign
};
std::string text(const Scatter& scatter);  // o and x for the classes, dots where the score is negative
std::string svg(const Scatter& scatter);   // the cells below 0 shaded, the boundary interpolated between their centres

}  // namespace caravan::plot
