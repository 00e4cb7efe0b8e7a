#include "caravan/plot/plot.h"

namespace caravan::plot {

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
