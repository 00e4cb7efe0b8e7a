// The same pictures as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/plot/contour.h"
#include "caravan/plot/page.h"
#include "caravan/plot/scale.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

namespace {

// A line through points, each with a dot that says what it is.
class Line {
 public:
  Line(Page& page, std::string_view colour) : page_(page), colour_(colour) {}

  void add(double x, double y, bool drawn, const std::string& says, bool ring = false) {
    if (!drawn) {
      if (!path_.empty() && path_.back() != '\n') path_ += "\n";  // the next value begins another piece
      return;
    }
    path_ += fmt::format("{}{:.2f} {:.2f}", path_.empty() || path_.back() == '\n' ? "M" : "L", x, y);
    if (says.empty()) return;
    dots_ +=
        fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{}\" {}><title>{}</title></circle>\n", x, y, ring ? 3 : 2,
                    ring ? fmt::format("fill=\"white\" stroke=\"{}\"", colour_) : fmt::format("fill=\"{}\"", colour_),
                    escaped(says));
  }
  void draw() {
    if (!path_.empty())
      page_.body += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path_, colour_);
    page_.body += dots_;
  }

 private:
  Page& page_;
  std::string_view colour_;
  std::string path_, dots_;
};

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
  const std::vector<double> ys = thinned(curve.values, kMost);
  const Scale scale(ys, curve.axis, curve.from_zero), right = scale_of(curve.beside);
  Page page{.width = 570, .height = 270, .right = right.empty() ? 60.0 : 110.0};
  if (!scale.empty())
    for (double tick : scale.ticks()) {
      const double y = page.y(scale.at(tick));
      page.line(page.x(0), y, page.x(1), y, kPale);
      page.label(page.x(0) - 8, y + 4, "end", fmt::format("{:.3g}", tick));
    }
  const double each = double(curve.values.size()) / double(ys.empty() ? 1 : ys.size()) * double(curve.x_step);
  Line line(page, kBlue);
  for (size_t i = 0; i < ys.size(); ++i) {
    const double at = std::min(double(i + 1) * each, double(curve.last()));
    const bool no_logarithm = curve.axis == Axis::logarithmic && ys[i] <= 0;
    line.add(page.x(across(curve, at)), page.y(scale.at(ys[i])), drawable(ys[i]),
             ys.size() > kDotted && !no_logarithm ? "" : fmt::format("{} {:.6g}: {:.6g}", curve.x_label, at, ys[i]),
             no_logarithm);
  }
  line.draw();
  if (!ys.empty() && drawable(ys.back()))
    page.label(page.x(1) + 6, page.y(scale.at(ys.back())) + 4, "start", fmt::format("{:.3g}", ys.back()), kBlue);
  if (!right.empty()) {
    Line beside(page, kRed);
    for (const Beside::Point& point : curve.beside.points)
      beside.add(page.x(across(curve, point.x)), page.y(right.at(point.value)), drawable(point.value),
                 fmt::format("{} {:.6g}: {:.6g}", curve.x_label, point.x, point.value));
    beside.draw();
    for (double tick : right.ticks())
      page.label(page.x(1) + 60, page.y(right.at(tick)) + 4, "start", fmt::format("{:.4g}", tick), kRed);
    page.label(page.x(1) + 60, page.y(0) + 38, "middle", curve.beside.name, kRed);
  }
  const int64_t last = curve.last(), first = std::min(curve.x_step, last);
  for (int64_t x : whole_ticks(first, last)) {
    const double at = page.x(across(curve, double(x)));
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
  if (const std::string d = level_line(page, frame, scatter.scores, 0); !d.empty())
    page.body += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", d, kInk);
  page.corners(frame);
  return page.finish(scatter.title);
}

}  // namespace caravan::plot
