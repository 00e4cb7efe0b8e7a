// Points of the plane, and straight lines through them.
#pragma once

#include <string>
#include <vector>

#include "caravan/array/array.h"

namespace caravan::plot {

struct Fit {
  struct Line {
    std::string name;  // "learned"
    double slope = 0, offset = 0;
  };
  std::string title;
  Array x, y;               // n each; what is not a number is left out
  std::vector<Line> lines;  // the first one is drawn strongest
};
std::string text(const Fit& fit, int width = 64, int height = 18);  // o for points, • and . for the lines
std::string svg(const Fit& fit);

}  // namespace caravan::plot
