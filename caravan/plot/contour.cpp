#include "caravan/plot/contour.h"

#include <fmt/format.h>

#include <vector>

#include "caravan/plot/scale.h"

namespace caravan::plot {

namespace {

struct Point {
  double x, y;
};

}  // namespace

std::string level_line(const Page& page, const Frame& frame, const Array& values, double level) {
  auto score = [&](int row, int column) { return values.at(int64_t(row) * frame.width + column) - level; };
  auto place = [&](double row, double column) {
    return Point{page.x((column + 0.5) / frame.width), page.y(1 - (row + 0.5) / frame.height)};
  };
  std::string out;
  for (int r = 0; r + 1 < frame.height; ++r)
    for (int c = 0; c + 1 < frame.width; ++c) {
      const int corners[5][2] = {{r, c}, {r, c + 1}, {r + 1, c + 1}, {r + 1, c}, {r, c}};
      std::vector<Point> crossings;
      for (int k = 0; k < 4; ++k) {
        const int *from = corners[k], *to = corners[k + 1];
        const double a = score(from[0], from[1]), b = score(to[0], to[1]);
        if ((a < 0) == (b < 0) || !drawable(a) || !drawable(b)) continue;
        const double t = a / (a - b);
        crossings.push_back(place(from[0] + t * (to[0] - from[0]), from[1] + t * (to[1] - from[1])));
      }
      for (size_t k = 0; k + 1 < crossings.size(); k += 2)
        out += fmt::format("M{:.2f} {:.2f}L{:.2f} {:.2f}", crossings[k].x, crossings[k].y, crossings[k + 1].x,
                           crossings[k + 1].y);
    }
  return out;
}

}  // namespace caravan::plot
