// The same pictures as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/plot/page.h"
#include "caravan/plot/scale.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

namespace {

struct Point {
  double x, y;
};

// Marching squares between the centres of four neighbouring cells: where the score changes its sign, as the commands of
// a path. A square with four changes is cut at two opposite corners.
std::string boundary(const Page& page, const Frame& frame, const Array& scores) {
  auto score = [&](int row, int column) { return scores.at(int64_t(row) * frame.width + column); };
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

// Where the horizontal axis has a number: round ones in its range, or the only one there is.
std::vector<int64_t> whole_ticks(int64_t first, int64_t last) {
  if (first == last) return {first};
  std::vector<int64_t> out;
  for (double tick : Scale({double(first), double(last)}, Axis::linear).ticks(8))
    if (tick == std::round(tick)) out.push_back(std::llround(tick));
  return out;
}

}  // namespace

std::string svg(const Curve& curve) {
  constexpr int kMost = 640;    // values drawn; more are averaged
  constexpr int kDotted = 100;  // values that each get a dot and its number
  Page page{.width = 570, .height = 270, .right = 40};
  const std::vector<double> ys = thinned(curve.values, kMost);
  const Scale scale(ys, curve.axis);
  if (!scale.empty())
    for (double tick : scale.ticks()) {
      const double y = page.y(scale.at(tick));
      page.line(page.x(0), y, page.x(1), y, kPale);
      page.label(page.x(0) - 8, y + 4, "end", fmt::format("{:.3g}", tick));
    }
  const double each = double(curve.values.size()) / double(ys.empty() ? 1 : ys.size()) * double(curve.x_step);
  std::string line, dots;
  for (size_t i = 0; i < ys.size(); ++i) {
    if (!drawable(ys[i])) {
      if (!line.empty() && line.back() != '\n') line += "\n";  // the next value begins another piece
      continue;
    }
    const double x = page.x(ys.size() == 1 ? 0 : double(i) / double(ys.size() - 1)), y = page.y(scale.at(ys[i]));
    line += fmt::format("{}{:.2f} {:.2f}", line.empty() || line.back() == '\n' ? "M" : "L", x, y);
    if (ys.size() <= kDotted)
      dots += fmt::format(
          "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"2\" fill=\"{}\"><title>{} {:.6g}: {:.6g}</title></circle>\n", x, y,
          kBlue, escaped(curve.x_label), double(i + 1) * each, ys[i]);
  }
  if (!line.empty())
    page.body += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", line, kBlue);
  page.body += dots;
  const int64_t first = curve.x_step, last = std::max<int64_t>(1, int64_t(curve.values.size())) * curve.x_step;
  for (int64_t x : whole_ticks(first, last)) {
    const double at = page.x(first == last ? 0 : double(x - first) / double(last - first));
    page.line(at, page.y(0), at, page.y(0) + 4, kInk);
    page.label(at, page.y(0) + 20, "middle", grouped(x));
  }
  page.label(page.x(0.5), page.y(0) + 38, "middle", curve.x_label);
  return page.finish(curve.title);
}

std::string svg(const Scatter& scatter) {
  constexpr double kWidth = 640;
  const Frame& frame = scatter.frame;
  Page page{kWidth, std::round(kWidth * (frame.top - frame.bottom) / (frame.right - frame.left))};
  const double cell_x = page.width / frame.width, cell_y = page.height / frame.height;
  for (int r = 0; r < frame.height; ++r)  // one rectangle for each run of negative cells
    for (int c = 0; c < frame.width;) {
      int end = c;
      while (end < frame.width && scatter.scores.at(int64_t(r) * frame.width + end) < 0) ++end;
      if (end > c) page.box(page.left + c * cell_x, page.top + r * cell_y, (end - c) * cell_x, cell_y + 0.5, kShade);
      c = end + 1;
    }
  for (int64_t i = 0; i < scatter.labels.size(); ++i) {
    const double x = (scatter.points.at(2 * i) - frame.left) / (frame.right - frame.left);
    const double y = (scatter.points.at(2 * i + 1) - frame.bottom) / (frame.top - frame.bottom);
    if (!(x >= 0 && x <= 1 && y >= 0 && y <= 1)) continue;
    page.body += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\" fill=\"{}\" fill-opacity=\"0.7\"/>\n",
                             page.x(x), page.y(y), scatter.labels.at(i) > 0 ? kBlue : kRed);
  }
  if (const std::string d = boundary(page, frame, scatter.scores); !d.empty())
    page.body += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", d, kInk);
  page.corners(frame);
  return page.finish(scatter.title);
}

}  // namespace caravan::plot
