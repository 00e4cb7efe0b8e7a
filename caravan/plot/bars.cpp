#include "caravan/plot/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/plot/page.h"
#include "caravan/plot/words.h"

namespace caravan::plot {

namespace {

void check(const Bars& bars) {
  if (bars.names.size() != bars.values.size())
    throw ShapeError(fmt::format("Bars \"{}\": there are {} names and {} values.", bars.title, bars.names.size(),
                                 bars.values.size()));
}

double length(double value) { return value > 0 ? std::min(value, 1.0) : 0; }  // 0 for what is not a number

std::string two_decimals(double value) {
  return std::isfinite(value) ? fmt::format("{:.2f}%", 100 * value) : "not a number";
}

}  // namespace

std::string text(const Bars& bars, int width) {
  check(bars);
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int64_t first = longest(bars.names);
  std::string out = bars.title.empty() ? "" : bars.title + "\n\n";
  for (size_t i = 0; i < bars.values.size(); ++i) {
    const auto eighths = std::lround(length(bars.values[i]) * width * 8);
    out += padded(bars.names[i], 2 + first) + " ▕";
    for (long k = 0; k < eighths / 8; ++k) out += "█";
    out += kEighths[eighths % 8];
    out += std::string(size_t(width - (eighths + 7) / 8 + 1), ' ') + padded(two_decimals(bars.values[i]), 8) + '\n';
  }
  return out;
}

std::string svg(const Bars& bars) {
  check(bars);
  constexpr double kLine = 24, kBar = 16;
  Page page{.width = 320,
            .height = kLine * double(bars.values.size()),
            .left = 24 + 7 * double(longest(bars.names)),
            .right = 90,
            .bottom = 16,
            .framed = false};
  double largest = 0;
  for (double value : bars.values) largest = std::max(largest, length(value));
  for (size_t i = 0; i < bars.values.size(); ++i) {
    const double part = length(bars.values[i]), top = page.top + kLine * double(i), base = top + kLine / 2 + 4;
    page.label(page.left - 8, base, "end", bars.names[i]);
    page.box(page.left, top + (kLine - kBar) / 2, part * page.width, kBar, part == largest ? kBlue : "#a9c3e0");
    page.label(page.left + part * page.width + 6, base, "start", two_decimals(bars.values[i]));
  }
  page.line(page.left, page.top, page.left, page.top + page.height, kInk);
  return page.finish(bars.title);
}

}  // namespace caravan::plot
