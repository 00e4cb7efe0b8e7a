// A sheet as characters: two pixels lie above each other in one, as a half block where they differ, else as a shade.
#include <algorithm>

#include "caravan/plot/tiles.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

namespace {

constexpr int64_t kGap = 2;  // characters between images

// The mean of a square of pixels, 0 to 255; outside the image all is black.
int64_t level(const Tiles& tiles, int64_t image, int64_t row, int64_t column, int64_t side) {
  int64_t total = 0;
  for (int64_t y = row * side; y < std::min((row + 1) * side, tiles.height); ++y)
    for (int64_t x = column * side; x < std::min((column + 1) * side, tiles.width); ++x) total += tiles.at(image, y, x);
  return total / (side * side);
}

const char* shown(int64_t above, int64_t below) {
  constexpr int64_t kDiffer = 96;
  if (above - below > kDiffer) return "▀";
  if (below - above > kDiffer) return "▄";
  constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  return kShades[(above + below) * 5 / (2 * 256)];
}

// In the middle of `width` columns; what is longer is cut off.
std::string centred(const std::string& name, int64_t width) {
  std::string out = name;
  while (columns(out) > width) out.pop_back();
  const int64_t room = width - columns(out);
  return std::string(size_t(room / 2), ' ') + out + std::string(size_t(room - room / 2), ' ');
}

void finish_line(std::string& out) {
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += '\n';
}

}  // namespace

std::string text(const Sheet& sheet, int width) {
  const Tiles tiles(sheet);
  const int64_t in_row = std::min(sheet.columns, tiles.count);
  // Half a character is a pixel, or a square of four.
  const int64_t side = in_row * (tiles.width + kGap) - kGap <= width ? 1 : 2;
  const int64_t wide = (tiles.width + side - 1) / side, high = (tiles.height + 2 * side - 1) / (2 * side);
  const int64_t in_line = std::clamp<int64_t>((width + kGap) / (wide + kGap), 1, std::max<int64_t>(in_row, 1));

  std::string out = sheet.title.empty() ? "" : sheet.title + "\n";
  const auto names = [&](const std::vector<std::string>& all, int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i)
      out += centred(size_t(i) < all.size() ? all[size_t(i)] : "", wide) + std::string(kGap, ' ');
    finish_line(out);
  };
  for (int64_t row = 0; row * sheet.columns < tiles.count; ++row) {
    out += '\n';
    if (size_t(row) < sheet.row_titles.size()) out += sheet.row_titles[size_t(row)] + '\n';
    const int64_t row_end = std::min((row + 1) * sheet.columns, tiles.count);
    for (int64_t first = row * sheet.columns; first < row_end; first += in_line) {
      const int64_t end = std::min(first + in_line, row_end);
      if (!sheet.column_titles.empty())
        names(sheet.column_titles, first % sheet.columns, first % sheet.columns + end - first);
      for (int64_t y = 0; y < high; ++y) {
        for (int64_t i = first; i < end; ++i) {
          for (int64_t x = 0; x < wide; ++x)
            out += shown(level(tiles, i, 2 * y, x, side), level(tiles, i, 2 * y + 1, x, side));
          out += std::string(kGap, ' ');
        }
        finish_line(out);
      }
      if (!sheet.captions.empty()) names(sheet.captions, first, end);
    }
  }
  return out;
}

}  // namespace caravan::plot
