// Pictures made of characters.
#pragma once

#include <string>
#include <vector>

#include "caravan/array/array.h"

namespace caravan::app {

// Values against their position; the axis is logarithmic where none is negative and they span more than a decade.
std::string curve(const std::vector<double>& values, const std::string& title, const std::string& x_label,
                  int width = 64, int height = 12);

// A rectangle of the plane and the cells it is drawn with.
struct Frame {
  double left, right, bottom, top;
  int width, height;
  double x(int column) const { return left + (right - left) * (column + 0.5) / width; }
  double y(int row) const { return top - (top - bottom) * (row + 0.5) / height; }
};
// Points (n|2) as o or x by the sign of their label, on dots where the score of the cell (row by row) is negative.
std::string scatter(const Frame& frame, const Array& points, const Array& labels, const Array& scores);

}  // namespace caravan::app
