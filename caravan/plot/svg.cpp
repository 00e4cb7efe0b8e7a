// The same pictures as SVG 1.1: no script, no style sheet, nothing from elsewhere.
#include <fmt/format.h>

#include <cmath>

#include "caravan/plot/scale.h"

namespace caravan::plot {

namespace {

constexpr const char *kInk = "#333333", *kPale = "#dddddd", *kBlue = "#2563a8", *kRed = "#c2452d", *kShade = "#fbe9e4";

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

// A page with a title above a rectangle for the drawing.
struct Page {
  double width, height;  // of the drawing
  std::string body{};

  static constexpr double kLeft = 70, kTop = 40, kRight = 20, kBottom = 50;
  double x(double part) const { return kLeft + part * width; }        // 0 at the left, 1 at the right
  double y(double part) const { return kTop + (1 - part) * height; }  // 0 at the bottom, 1 at the top

  void label(double at_x, double at_y, const char* anchor, const std::string& text) {
    body += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\">{}</text>\n", at_x, at_y, anchor,
                        escaped(text));
  }
  void line(double x1, double y1, double x2, double y2, const char* colour) {
    body += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\"/>\n", x1, y1, x2,
                        y2, colour);
  }
  std::string finish(const std::string& title) const {
    const double w = kLeft + width + kRight, h = kTop + height + kBottom;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
               "font-family=\"sans-serif\" font-size=\"12\" fill=\"{2}\">\n<title>{3}</title>\n"
               "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
               "<text x=\"{4}\" y=\"24\" font-size=\"15\">{3}</text>\n",
               w, h, kInk, escaped(title), kLeft) +
           body +
           fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{}\"/>\n</svg>\n",
                       kLeft, kTop, width, height, kInk);
  }
};

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

}  // namespace

std::string svg(const Curve& curve) {
  constexpr int kMost = 640;    // values drawn; more are averaged
  constexpr int kDotted = 100;  // values that each get a dot and its number
  Page page{570, 270};
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
  page.label(page.x(0), page.y(0) + 20, "start", std::to_string(curve.x_step));
  page.label(page.x(1), page.y(0) + 20, "end", std::to_string(int64_t(curve.values.size()) * curve.x_step));
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
      if (end > c)
        page.body +=
            fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n",
                        Page::kLeft + c * cell_x, Page::kTop + r * cell_y, (end - c) * cell_x, cell_y + 0.5, kShade);
      c = end + 1;
    }
  for (int64_t i = 0; i < scatter.labels.size(); ++i) {
    const double x = (scatter.points.at(2 * i) - frame.left) / (frame.right - frame.left);
    const double y = (scatter.points.at(2 * i + 1) - frame.bottom) / (frame.top - frame.bottom);
    if (x < 0 || x > 1 || y < 0 || y > 1) continue;
    page.body += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\" fill=\"{}\" fill-opacity=\"0.7\"/>\n",
                             page.x(x), page.y(y), scatter.labels.at(i) > 0 ? kBlue : kRed);
  }
  if (const std::string d = boundary(page, frame, scatter.scores); !d.empty())
    page.body += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", d, kInk);
  for (double corner : {0.0, 1.0}) {
    const char* anchor = corner == 0 ? "start" : "end";
    page.label(page.x(corner), page.y(0) + 20, anchor,
               fmt::format("{:.4g}", frame.left + corner * (frame.right - frame.left)));
    page.label(page.x(0) - 8, page.y(corner) + 4, "end",
               fmt::format("{:.4g}", frame.bottom + corner * (frame.top - frame.bottom)));
  }
  return page.finish(scatter.title);
}

}  // namespace caravan::plot
