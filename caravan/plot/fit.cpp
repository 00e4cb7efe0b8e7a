#include "caravan/plot/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/plot/page.h"
#include "caravan/plot/scale.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

namespace {

struct Scales {
  Scale x, y;
};
Scales scales(const Fit& fit) {
  if (fit.x.size() != fit.y.size())
    throw ShapeError(fmt::format("Fit \"{}\": there are {} x and {} y.", fit.title, fit.x.size(), fit.y.size()));
  return {Scale(fit.x.values(), Axis::linear), Scale(fit.y.values(), Axis::linear)};
}

bool inside(double part) { return part >= 0 && part <= 1; }

}  // namespace

std::string text(const Fit& fit, int width, int height) {
  const Scales s = scales(fit);
  const Frame frame{0, 1, 0, 1, width, height};
  std::vector<std::string> cells(size_t(width) * size_t(height), " ");
  const auto mark = [&](double x, double y, const char* sign) {
    if (const auto cell = frame.cell(std::min(x, 0.9999), std::max(y, 0.0001))) cells[*cell] = sign;
  };
  for (size_t k = fit.lines.size(); k-- > 0;)
    for (int c = 0; c < width; ++c)
      if (const double y = s.y.at(fit.lines[k].slope * s.x.value(frame.x(c)) + fit.lines[k].offset); inside(y))
        mark(frame.x(c), y, k == 0 ? "•" : ".");
  for (int64_t i = 0; i < fit.x.size(); ++i)
    if (drawable(fit.x.at(i)) && drawable(fit.y.at(i))) mark(s.x.at(fit.x.at(i)), s.y.at(fit.y.at(i)), "o");
  std::string out = fit.title;
  for (size_t k = 0; k < fit.lines.size(); ++k)
    out += fmt::format("{} {} {}", k == 0 ? ":" : ",", k == 0 ? "•" : ".", fit.lines[k].name);
  out += "\n\n";
  for (int r = 0; r < height; ++r) {
    std::string line = "  ";
    for (int c = 0; c < width; ++c) line += cells[size_t(r) * size_t(width) + size_t(c)];
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string svg(const Fit& fit) {
  const Scales s = scales(fit);
  Page page{.width = 480, .height = 320, .bottom = 74};
  for (const double tick : s.y.empty() ? std::vector<double>() : s.y.ticks()) {
    page.line(page.x(0), page.y(s.y.at(tick)), page.x(1), page.y(s.y.at(tick)), kPale);
    page.label(page.x(0) - 8, page.y(s.y.at(tick)) + 4, "end", fmt::format("{:.3g}", tick));
  }
  for (const double tick : s.x.empty() ? std::vector<double>() : s.x.ticks()) {
    page.line(page.x(s.x.at(tick)), page.y(0), page.x(s.x.at(tick)), page.y(0) + 4, kInk);
    page.label(page.x(s.x.at(tick)), page.y(0) + 20, "middle", fmt::format("{:.3g}", tick));
  }
  for (int64_t i = 0; i < fit.x.size(); ++i)
    if (drawable(fit.x.at(i)) && drawable(fit.y.at(i)))
      page.body += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\" fill=\"{}\" fill-opacity=\"0.7\"/>\n",
                               page.x(s.x.at(fit.x.at(i))), page.y(s.y.at(fit.y.at(i))), kBlue);
  double legend = page.left;
  for (size_t k = 0; k < fit.lines.size(); ++k) {
    const Fit::Line& line = fit.lines[k];
    const auto y = [&](double part) { return page.y(s.y.at(line.slope * s.x.value(part) + line.offset)); };
    const std::string stroke = fmt::format("stroke=\"{}\" stroke-width=\"2\"{}", k == 0 ? kRed : kInk,
                                           k == 0 ? "" : " stroke-dasharray=\"5 4\"");
    if (!s.x.empty() && drawable(y(0)) && drawable(y(1)))  // an svg of its own cuts off what reaches beyond the frame
      page.body += fmt::format(
          "<svg x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\">\n<line x1=\"0\" y1=\"{4:.2f}\" x2=\"{2}\" "
          "y2=\"{5:.2f}\" "
          "{6}/>\n</svg>\n",
          page.left, page.top, page.width, page.height, y(0) - page.top, y(1) - page.top, stroke);
    page.body += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" {}/>\n", legend,
                             page.y(0) + 48, legend + 24, page.y(0) + 48, stroke);
    page.label(legend + 30, page.y(0) + 52, "start", line.name);
    legend += 30 + 7 * double(columns(line.name)) + 20;
  }
  return page.finish(fit.title);
}

}  // namespace caravan::plot
