#include "caravan/plot/confidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/plot/page.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

namespace {

struct Answer {
  double x, y;
  bool said, wrong, silent;  // said: class 1; silent: the probability is not a number
  double sure;               // 0 where both classes are as likely, 1 where one is certain
};

Answer answer(const Confidence& c, int64_t i) {
  const double p = c.probabilities.at(i);
  const bool said = p >= 0.5, silent = std::isnan(p);
  return {c.points.at(2 * i),
          c.points.at(2 * i + 1),
          said,
          !silent && said != (c.labels.at(i) > 0),
          silent,
          silent ? 0 : std::fabs(2 * std::min(std::max(p, 0.0), 1.0) - 1)};
}

// In the order of drawing: what is wrong lies on top.
std::vector<Answer> answers(const Confidence& c) {
  const int64_t n = c.probabilities.size();
  if (c.points.size() != 2 * n || c.labels.size() != n)
    throw ShapeError(
        fmt::format("Confidence \"{}\": {} probabilities need points {}|2 and {} labels, not {} and {} numbers.",
                    c.title, n, n, n, c.points.size(), c.labels.size()));
  std::vector<Answer> out;
  for (bool wrong : {false, true})
    for (int64_t i = 0; i < n; ++i)
      if (const Answer one = answer(c, i); one.wrong == wrong) out.push_back(one);
  return out;
}

}  // namespace

std::string text(const Confidence& confidence) {
  constexpr double kSure = 0.8;  // a probability of 0.9 or 0.1
  const Frame& frame = confidence.frame;
  std::string cells(size_t(frame.width) * size_t(frame.height), ' ');
  const auto mark = [&](double x, double y, char sign) {
    if (const std::optional<size_t> cell = frame.cell(x, y)) cells[*cell] = sign;
  };
  if (confidence.circle) {
    const int steps = 8 * (frame.width + frame.height);  // closer than the cells
    for (int k = 0; k < steps; ++k) {
      const double angle = 2 * std::acos(-1.0) * k / steps;
      mark(confidence.circle->x + confidence.circle->radius * std::cos(angle),
           confidence.circle->y + confidence.circle->radius * std::sin(angle), '.');
    }
  }
  size_t wrong = 0;
  for (const Answer& a : answers(confidence)) {
    wrong += a.wrong;
    mark(a.x, a.y,
         a.silent  ? '?'
         : a.wrong ? '!'
         : a.said  ? (a.sure >= kSure ? 'O' : 'o')
                   : (a.sure >= kSure ? 'X' : 'x'));
  }
  return fmt::format(
             "{}: o says {}, x says {}, capitals where the model is 90% sure, ! where it is wrong ({} of {})\n\n",
             confidence.title, confidence.classes[1], confidence.classes[0], wrong, confidence.labels.size()) +
         frame.lines(cells);
}

std::string svg(const Confidence& confidence) {
  constexpr double kSide = 480;
  const Frame& frame = confidence.frame;
  const double across = frame.right - frame.left, up = frame.top - frame.bottom;
  Page page{.width = kSide, .height = std::round(kSide * up / across), .bottom = 74};
  const auto x = [&](double at) { return page.x((at - frame.left) / across); };
  const auto y = [&](double at) { return page.y((at - frame.bottom) / up); };
  const auto dot = [&](double at_x, double at_y, const char* colour, double sure, bool wrong) {
    page.body +=
        fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:.2f}\" fill=\"{}\" fill-opacity=\"{:.2f}\"{}/>\n", at_x,
                    at_y, wrong ? 3.5 : 2 + 2 * sure, colour, 0.25 + 0.55 * sure,
                    wrong ? fmt::format(" stroke=\"{}\" stroke-width=\"1.5\"", kInk) : "");
  };
  const double reach = confidence.circle ? confidence.circle->radius : 0;
  if (reach > 0 && std::isfinite(reach + confidence.circle->x + confidence.circle->y))
    page.body += fmt::format(  // inside an svg of its own, which cuts off what reaches beyond the frame
        "<svg x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">\n<ellipse cx=\"{:.2f}\" cy=\"{:.2f}\" rx=\"{:.2f}\" "
        "ry=\"{:.2f}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"5 4\"/>\n</svg>\n",
        page.left, page.top, page.width, page.height, x(confidence.circle->x) - page.left,
        y(confidence.circle->y) - page.top, reach / across * page.width, reach / up * page.height, kInk);
  for (const Answer& a : answers(confidence))
    if (a.x >= frame.left && a.x <= frame.right && a.y >= frame.bottom && a.y <= frame.top)
      dot(x(a.x), y(a.y), a.silent ? kPale : a.said ? kBlue : kRed, a.sure, a.wrong);

  page.corners(frame);
  const double legend = page.y(0) + 52;
  double at = page.left;
  const auto entry = [&](const char* colour, double sure, bool wrong, const std::string& name) {
    dot(at + 4, legend - 4, colour, sure, wrong);
    page.label(at + 14, legend, "start", name);
    at += 14 + 7 * double(columns(name)) + 16;
  };
  entry(kBlue, 1, false, "says " + confidence.classes[1]);
  entry(kRed, 1, false, "says " + confidence.classes[0]);
  entry(kInk, 0, false, "unsure");
  entry(kPale, 1, true, "wrong");
  return page.finish(confidence.title);
}

}  // namespace caravan::plot
