// Pictures made of characters.
#include <fmt/format.h>

#include <cmath>

#include "caravan/plot/scale.h"

namespace caravan::plot {

std::string text(const Curve& curve, int width, int height) {
  const std::vector<double> ys = thinned(curve.values, width);
  const Scale scale(ys, curve.axis);
  if (scale.empty()) return curve.title + ": nothing to draw\n";
  std::vector<std::vector<bool>> dot(size_t(height), std::vector<bool>(size_t(width), false));
  for (size_t i = 0; i < ys.size(); ++i) {
    if (!drawable(ys[i])) continue;
    const size_t column = ys.size() == 1 ? 0 : i * size_t(width - 1) / (ys.size() - 1);
    dot[size_t(std::lround((1 - scale.at(ys[i])) * (height - 1)))][column] = true;
  }

  std::string out = curve.title + "\n\n";
  for (int r = 0; r < height; ++r) {
    const bool labelled = r % 4 == 0 || r == height - 1;
    out +=
        labelled ? fmt::format("{:>10.3g} ┤", scale.value(1 - double(r) / (height - 1))) : fmt::format("{:>10} │", "");
    for (bool on : dot[size_t(r)]) out += on ? "•" : " ";
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  std::string line;
  for (int c = 0; c < width; ++c) line += "─";
  const std::string first = grouped(curve.x_step),
                    last = fmt::format("{} {}", curve.x_label, grouped(int64_t(curve.values.size()) * curve.x_step));
  return out + fmt::format("{:>10} └{}\n{:>12}{}{:>{}}\n", "", line, "", first, last, width - int(first.size()));
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
