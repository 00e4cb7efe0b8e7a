// A function of the plane: darker where it is larger, with lines of equal height.
#pragma once

#include <string>

#include "caravan/plot/plot.h"

namespace caravan::plot {

struct Surface {
  std::string title;
  Frame frame;
  Array values;   // of each cell, row by row; what is not a number is left white
  Array truth{};  // what they should be, for dashed lines; a single number: nothing is known of it
};
std::string text(const Surface& surface);  // a digit for each cell, 0 the lowest tenth of the range and 9 the highest
std::string svg(const Surface& surface);

}  // namespace caravan::plot
