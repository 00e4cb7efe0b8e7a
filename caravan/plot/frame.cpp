#include <cmath>

#include "caravan/plot/plot.h"

namespace caravan::plot {

std::optional<size_t> Frame::cell(double at_x, double at_y) const {
  const double column = std::floor((at_x - left) / (right - left) * width);
  const double row = std::floor((top - at_y) / (top - bottom) * height);
  if (!(column >= 0 && column < width && row >= 0 && row < height)) return {};  // NaN is nowhere
  return size_t(row) * size_t(width) + size_t(column);
}

std::string Frame::lines(const std::string& cells) const {
  std::string out;
  for (size_t row = 0; row < size_t(height); ++row) {
    const std::string line = cells.substr(row * size_t(width), size_t(width));
    const std::string shown = line.substr(0, line.find_last_not_of(' ') + 1);
    out += (shown.empty() ? "" : "  ") + shown + "\n";
  }
  return out;
}

Array Frame::centres() const {
  std::vector<double> xy;
  for (int row = 0; row < height; ++row)
    for (int column = 0; column < width; ++column) xy.insert(xy.end(), {x(column), y(row)});
  Shape shape;
  shape.batch = {{int64_t(width) * height}};
  shape.output = {{2}};
  return Array(shape, xy);
}

}  // namespace caravan::plot
