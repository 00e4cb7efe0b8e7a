// Pictures made of characters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/plot/scale.h"

namespace caravan::plot {

namespace {

// A drawing of characters: each cell has a mark, or none.
class Canvas {
 public:
  Canvas(int width, int height) : width_(width), height_(height), cells_(size_t(width) * size_t(height), " ") {}

  void mark(double across, double up, const char* sign) {  // 0 at the left and the bottom, 1 at the right and the top
    const auto column = size_t(across * (width_ - 1)), row = size_t(std::lround((1 - up) * (height_ - 1)));
    cells_[row * size_t(width_) + column] = sign;
  }
  std::string row(int r) const {
    std::string out;
    for (int c = 0; c < width_; ++c) out += cells_[size_t(r) * size_t(width_) + size_t(c)];
    return out;
  }

 private:
  int width_, height_;
  std::vector<const char*> cells_;
};

}  // namespace

std::string text(const Curve& curve, int width, int height) {
  const std::vector<double> ys = thinned(curve.values, width);
  const Scale scale(ys, curve.axis, curve.from_zero), right = scale_of(curve.beside);
  if (scale.empty()) return curve.title + ": nothing to draw\n";
  Canvas canvas(width, height);
  for (const Beside::Point& point : curve.beside.points)
    if (drawable(point.value)) canvas.mark(across(curve, point.x), right.at(point.value), "+");
  for (size_t i = 0; i < ys.size(); ++i)
    if (drawable(ys[i]))
      canvas.mark(ys.size() == 1 ? 0 : double(i) / double(ys.size() - 1), scale.at(ys[i]),
                  curve.axis == Axis::logarithmic && ys[i] <= 0 ? "○" : "•");

  std::string out = curve.title + "\n\n";
  for (int r = 0; r < height; ++r) {
    const bool labelled = r % 4 == 0 || r == height - 1;
    const double up = 1 - double(r) / (height - 1);
    out += labelled ? fmt::format("{:>10.3g} ┤", scale.value(up)) : fmt::format("{:>10} │", "");
    out += canvas.row(r);
    if (!right.empty()) out += labelled ? fmt::format(" ├ {:.4g}", right.value(up)) : " │";
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  std::string line;
  for (int c = 0; c < width; ++c) line += "─";
  const std::string first = grouped(std::min(curve.x_step, curve.last())),
                    last = fmt::format("{} {}", curve.x_label, grouped(curve.last()));
  return out + fmt::format("{:>10} └{}{}\n{:>12}{}{:>{}}\n", "", line, right.empty() ? "" : "─┘", "", first, last,
                           width - int(first.size()));
}

std::string sparkline(const std::vector<double>& values, int width) {
  constexpr const char* kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::vector<double> ys = thinned(values, width);
  const bool positive = std::all_of(ys.begin(), ys.end(), [](double y) { return !drawable(y) || y > 0; });
  const Scale scale(ys, positive ? Axis::logarithmic : Axis::linear);
  std::string out;
  for (const double y : ys) out += drawable(y) ? kLevels[std::lround(scale.at(y) * 7)] : " ";
  return out;
}

std::string text(const Scatter& scatter) {
  const Frame& frame = scatter.frame;
  std::string cells(size_t(frame.width) * size_t(frame.height), ' ');
  for (size_t k = 0; k < cells.size(); ++k)
    if (scatter.scores.at(int64_t(k)) < 0) cells[k] = '.';
  for (int64_t i = 0; i < scatter.labels.size(); ++i)
    if (const auto cell = frame.cell(scatter.points.at(2 * i), scatter.points.at(2 * i + 1)))
      cells[*cell] = scatter.labels.at(i) > 0 ? 'o' : 'x';
  return scatter.title + ": o and x are the two classes, dots are where the model says x\n\n" + frame.lines(cells);
}

}  // namespace caravan::plot
