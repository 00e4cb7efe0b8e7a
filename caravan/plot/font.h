// Letters of 5 x 7 pixels, and two rows below the line, for pictures that have pixels only.
#pragma once

#include <string>

#include "caravan/plot/png.h"

namespace caravan::plot {

inline constexpr int64_t kLetterWidth = 6, kLetterHeight = 9;  // with the gap to the next letter; with what hangs down

// Writes on a grey image with the upper left corner at x, y; what falls outside is cut off. A character that has no
// picture is a small box, a space is nothing.
void write(Image& image, int64_t x, int64_t y, const std::string& text, uint8_t grey, int64_t scale = 1);

}  // namespace caravan::plot
