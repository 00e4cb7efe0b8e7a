// Images of 8 bits as PNG files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caravan::plot {

// Pixels of 8 bits.
struct Image {
  int64_t width = 0, height = 0;  // in pixels
  int channels = 1;               // 1: grey, 3: red, green, blue
  std::vector<uint8_t> pixels;    // row by row from the top, the channels of a pixel side by side
};
std::string png(const Image& image);       // the bytes of the file; equal images, equal bytes
std::string data_uri(const Image& image);  // the same file as text, to stand inside an SVG or a page

}  // namespace caravan::plot
