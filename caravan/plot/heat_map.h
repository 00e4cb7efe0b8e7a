// A table of values as shades.
#pragma once

#include <string>
#include <vector>

namespace caravan::plot {

struct HeatMap {
  std::string title;
  std::vector<std::string> rows, columns;   // their names
  std::vector<double> values;               // row by row, 0 or more; the largest is darkest, what is no number is white
  std::vector<std::string> cells{};         // a text in each, row by row; empty: none
  std::string row_title{}, column_title{};  // what rows and columns are
  double cell = 36;                         // the side of a cell in pixels
};
std::string svg(const HeatMap& map);

}  // namespace caravan::plot
