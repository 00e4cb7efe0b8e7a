// The images of a sheet as bytes.
#pragma once

#include "caravan/plot/sheet.h"

namespace caravan::plot {

struct Tiles {
  explicit Tiles(const Sheet& sheet);  // refuses what is no row of images
  int64_t count = 0, height = 0, width = 0;
  std::vector<uint8_t> grey;  // image after image, row by row; what is not a number is black

  uint8_t at(int64_t image, int64_t y, int64_t x) const { return grey[size_t((image * height + y) * width + x)]; }
  Image image(int64_t which) const;
};

}  // namespace caravan::plot
