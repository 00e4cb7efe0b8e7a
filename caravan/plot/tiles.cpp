#include "caravan/plot/tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/base/error.h"

namespace caravan::plot {

Tiles::Tiles(const Sheet& sheet) {
  const Shape& shape = sheet.images.shape();
  const Row& axes = shape.output;
  const bool grey_channel = axes.size() == 3 && axes[2].size == 1;
  if (axes.size() == 1)
    height = width = std::llround(std::sqrt(double(axes[0].size)));
  else if (axes.size() == 2 || grey_channel)
    height = axes[0].size, width = axes[1].size;
  const bool square = axes.size() != 1 || height * width == axes[0].size;
  if (shape.batch.size() != 1 || !shape.input.empty() || !square || height < 1 || width < 1)
    throw ShapeError(fmt::format("Sheet \"{}\": images are n|h,w,1 or n|h,w or n|side*side, not {}: reshape them.",
                                 sheet.title, to_string(shape)));
  if (sheet.columns < 1 || sheet.scale < 1)
    throw ShapeError(fmt::format("Sheet \"{}\": columns ({}) and scale ({}) are at least 1.", sheet.title,
                                 sheet.columns, sheet.scale));
  count = shape.batch[0].size;
  const double white = is_integer(sheet.images.dtype()) ? 255 : 1;
  for (double value : sheet.images.values())
    grey.push_back(value > 0 ? uint8_t(std::lround(std::min(value / white, 1.0) * 255)) : 0);
}

Image Tiles::image(int64_t which) const {
  const auto from = grey.begin() + which * height * width;
  return {width, height, 1, {from, from + height * width}};
}

}  // namespace caravan::plot
