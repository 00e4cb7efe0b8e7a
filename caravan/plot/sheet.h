// Small grey images side by side: digits of a data set, what a model took for what, originals over reconstructions.
#pragma once

#include <string>
#include <vector>

#include "caravan/array/array.h"
#include "caravan/plot/png.h"

namespace caravan::plot {

// Images and their captions.
struct Sheet {
  std::string title;                    // above the images
  Array images{};                       // n|h,w,1 or n|h,w or n|side*side; u8, or 0 (black) to 1 (white)
  int64_t columns = 10;                 // images in a row
  std::vector<std::string> captions{};  // under the images in order, as many as there are
  std::vector<std::string> row_titles{}, column_titles{};  // to the left, above
  int64_t scale = 2;                                       // how many pixels of the picture an image's pixel is wide
};
std::string png(const Sheet& sheet);  // names in letters of 5 x 7 pixels
std::string svg(const Sheet& sheet);  // names as text, the images inside the file
// A character is two pixels, one above the other; where a row is wider than `width` it is eight, and the row is broken.
std::string text(const Sheet& sheet, int width = 100);

}  // namespace caravan::plot
