#include "caravan/plot/heat_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/plot/page.h"
#include "caravan/plot/scale.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

std::string svg(const HeatMap& map) {
  const size_t rows = map.rows.size(), columns = map.columns.size();
  if (map.values.size() != rows * columns || (!map.cells.empty() && map.cells.size() != rows * columns))
    throw ShapeError(fmt::format("HeatMap \"{}\": {} rows and {} columns need {} values, not {}, and {} texts.",
                                 map.title, rows, columns, rows * columns, map.values.size(), map.cells.size()));
  double most = 0;
  for (const double value : map.values)
    if (drawable(value)) most = std::max(most, value);
  Page page{.width = map.cell * double(columns),
            .height = map.cell * double(rows),
            .left = 50 + 7 * double(longest(map.rows)),
            .top = 80,
            .bottom = 20};
  page.label(page.left + page.width / 2, page.top - 26, "middle", map.column_title);
  page.body +=
      fmt::format("<text transform=\"translate({:.2f} {:.2f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n", 20.0,
                  page.top + page.height / 2, escaped(map.row_title));
  for (size_t r = 0; r < rows; ++r)
    page.label(page.left - 8, page.top + (double(r) + 0.5) * map.cell + 4, "end", map.rows[r]);
  for (size_t c = 0; c < columns; ++c)
    page.label(page.left + (double(c) + 0.5) * map.cell, page.top - 8, "middle", map.columns[c]);
  for (size_t i = 0; i < map.values.size(); ++i) {
    const double shade = drawable(map.values[i]) && most > 0 ? std::max(0.0, map.values[i] / most) : 0;
    const double x = page.left + double(i % columns) * map.cell, y = page.top + double(i / columns) * map.cell;
    if (shade > 0) page.box(x, y, map.cell, map.cell, tint(kBlue, shade));
    if (!map.cells.empty())
      page.label(x + map.cell / 2, y + map.cell / 2 + 3, "middle", map.cells[i], shade > 0.6 ? "#ffffff" : kInk,
                 std::min(11.0, 1.5 * map.cell / double(std::max<int64_t>(1, plot::columns(map.cells[i])))));
  }
  return page.finish(map.title);
}

}  // namespace caravan::plot
