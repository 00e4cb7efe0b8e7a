// Where everything on a sheet lies, as pixels and as SVG.
#include "caravan/plot/sheet.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/plot/font.h"
#include "caravan/plot/page.h"
#include "caravan/plot/tiles.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

namespace {

// The longest name that an image has above or below it.
int64_t words(const Sheet& sheet) { return std::max(longest(sheet.captions), longest(sheet.column_titles)); }

// The grid of a sheet whose letters are `letter` pixels wide and whose lines are `line` pixels high.
struct Grid {
  static constexpr int64_t kMargin = 16, kGap = 6;
  int64_t letter, line;
  int64_t tile_width, tile_height, cell_width, cell_height;
  int64_t rows, columns, left, top;

  Grid(const Sheet& sheet, const Tiles& tiles, int64_t letter_width, int64_t line_height, int64_t title_height)
      : letter(letter_width),
        line(line_height),
        tile_width(tiles.width * sheet.scale),
        tile_height(tiles.height * sheet.scale) {
    cell_width = std::max(tile_width, (words(sheet) + 1) * letter) + kGap;
    cell_height = tile_height + kGap + (sheet.captions.empty() ? 0 : line);
    columns = std::min(sheet.columns, tiles.count);
    rows = (tiles.count + sheet.columns - 1) / sheet.columns;
    left = kMargin + (sheet.row_titles.empty() ? 0 : longest(sheet.row_titles) * letter + kGap);
    top = kMargin + (sheet.title.empty() ? 0 : title_height) + (sheet.column_titles.empty() ? 0 : line);
  }
  // Of the images and what is between them.
  int64_t width() const { return columns * cell_width - (columns > 0 ? kGap : 0); }
  int64_t height() const { return rows * cell_height; }
  int64_t tile_x(int64_t column) const { return left + column * cell_width + (cell_width - kGap - tile_width) / 2; }
  int64_t tile_y(int64_t row) const { return top + row * cell_height; }
  int64_t middle(int64_t column) const { return tile_x(column) + tile_width / 2; }
};

template <class Name>  // (which, its name) for as many as there is room for
void each_name(const std::vector<std::string>& names, int64_t room, const Name& name) {
  for (int64_t i = 0; i < std::min(int64_t(names.size()), room); ++i) name(i, names[size_t(i)]);
}

}  // namespace

std::string png(const Sheet& sheet) {
  constexpr uint8_t kInkGrey = 0x33, kWhite = 255;
  const Tiles tiles(sheet);
  const int64_t tile = tiles.width * sheet.scale;
  const int64_t font = words(sheet) * 2 * kLetterWidth <= tile + tile / 3 ? 2 : 1;  // large where it nearly fits
  const Grid grid(sheet, tiles, kLetterWidth * font, (kLetterHeight + 3) * font, 2 * kLetterHeight + 10);
  const int64_t content = std::max(grid.width(), columns(sheet.title) * 2 * kLetterWidth);
  Image page{grid.left + content + Grid::kMargin, grid.top + grid.height() + Grid::kMargin - Grid::kGap, 1, {}};
  page.pixels.assign(size_t(page.width * page.height), kWhite);
  const auto centred = [&](int64_t x, int64_t y, const std::string& name) {
    write(page, x - (columns(name) * grid.letter - font) / 2, y, name, kInkGrey, font);
  };

  write(page, grid.left, Grid::kMargin, sheet.title, kInkGrey, 2);
  each_name(sheet.column_titles, grid.columns,
            [&](int64_t c, const std::string& name) { centred(grid.middle(c), grid.top - grid.line, name); });
  each_name(sheet.row_titles, grid.rows, [&](int64_t r, const std::string& name) {
    write(page, grid.left - Grid::kGap - columns(name) * grid.letter,
          grid.tile_y(r) + (grid.tile_height - 7 * font) / 2, name, kInkGrey, font);
  });
  for (int64_t i = 0; i < tiles.count; ++i) {
    const int64_t left = grid.tile_x(i % sheet.columns), top = grid.tile_y(i / sheet.columns);
    for (int64_t y = 0; y < grid.tile_height; ++y)
      for (int64_t x = 0; x < grid.tile_width; ++x)
        page.pixels[size_t((top + y) * page.width + left + x)] = tiles.at(i, y / sheet.scale, x / sheet.scale);
  }
  each_name(sheet.captions, tiles.count, [&](int64_t i, const std::string& name) {
    centred(grid.middle(i % sheet.columns), grid.tile_y(i / sheet.columns) + grid.tile_height + 2 * font, name);
  });
  return png(page);
}

std::string svg(const Sheet& sheet) {
  const Tiles tiles(sheet);
  const Grid grid(sheet, tiles, 7, 18, 24);  // about the width of a letter of 12 pixels
  Page page{.width = double(grid.width()),
            .height = double(grid.height()),
            .left = double(grid.left),
            .top = double(grid.top),
            .right = Grid::kMargin,
            .bottom = Grid::kMargin - Grid::kGap,
            .framed = false};
  each_name(sheet.column_titles, grid.columns, [&](int64_t c, const std::string& name) {
    page.label(double(grid.middle(c)), double(grid.top - 6), "middle", name);
  });
  each_name(sheet.row_titles, grid.rows, [&](int64_t r, const std::string& name) {
    page.label(double(grid.left - Grid::kGap), double(grid.tile_y(r) + grid.tile_height / 2 + 4), "end", name);
  });
  page.body += "<g xmlns:xlink=\"http://www.w3.org/1999/xlink\" image-rendering=\"pixelated\">\n";
  for (int64_t i = 0; i < tiles.count; ++i)
    page.body += fmt::format("<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" xlink:href=\"{}\"/>\n",
                             grid.tile_x(i % sheet.columns), grid.tile_y(i / sheet.columns), grid.tile_width,
                             grid.tile_height, data_uri(tiles.image(i)));
  page.body += "</g>\n";
  each_name(sheet.captions, tiles.count, [&](int64_t i, const std::string& name) {
    page.label(double(grid.middle(i % sheet.columns)), double(grid.tile_y(i / sheet.columns) + grid.tile_height + 14),
               "middle", name);
  });
  return page.finish(sheet.title);
}

}  // namespace caravan::plot
