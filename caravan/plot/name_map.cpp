#include "caravan/plot/name_map.h"

#include <fmt/format.h>

#include "caravan/plot/page.h"
#include "caravan/plot/scale.h"

namespace caravan::plot {

std::string svg(const NameMap& map) {
  std::vector<double> xs, ys;
  for (const NameMap::Place& place : map.places) xs.push_back(place.x), ys.push_back(place.y);
  const Scale across(xs, Axis::linear), up(ys, Axis::linear);
  Page page{.width = 480, .height = 480};
  constexpr double kMargin = 0.05, kInside = 1 - 2 * kMargin;  // so that no name lies on the frame
  // All circles first, so that none hides a name.
  for (const bool names : {false, true})
    for (const NameMap::Place& place : map.places) {
      if (!drawable(place.x) || !drawable(place.y)) continue;
      const double x = page.x(kMargin + kInside * across.at(place.x)), y = page.y(kMargin + kInside * up.at(place.y));
      if (names)
        page.label(x, y + 4, "middle", place.name);
      else
        page.body +=
            fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"11\" fill=\"{}\"/>\n", x, y, tint(kBlue, 0.2));
    }
  page.label(page.x(0.5), page.y(0) + 24, "middle", map.x_label);
  page.label(page.x(0) - 8, page.y(0.5), "end", map.y_label);
  return page.finish(map.title);
}

}  // namespace caravan::plot
