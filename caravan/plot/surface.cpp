#include "caravan/plot/surface.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/plot/contour.h"
#include "caravan/plot/page.h"
#include "caravan/plot/png.h"
#include "caravan/plot/scale.h"

namespace caravan::plot {

namespace {

int64_t cells_of(const Surface& surface) {
  const int64_t cells = int64_t(surface.frame.width) * surface.frame.height;
  if (surface.values.size() != cells || (surface.truth.size() != cells && surface.truth.size() != 1))
    throw ShapeError(fmt::format("Surface \"{}\": {} x {} cells need {} values, not {} and {}.", surface.title,
                                 surface.frame.width, surface.frame.height, cells, surface.values.size(),
                                 surface.truth.size()));
  return cells;
}

}  // namespace

std::string text(const Surface& surface) {
  const int64_t cells = cells_of(surface);
  const Scale scale(surface.values.values(), Axis::linear);
  std::string drawn(size_t(cells), ' ');
  for (int64_t i = 0; i < cells; ++i)
    if (const double value = surface.values.at(i); drawable(value))
      drawn[size_t(i)] = char('0' + std::clamp(int(scale.at(value) * 10), 0, 9));
  return fmt::format("{}: 0 to 9 from {:.3g} to {:.3g}\n\n", surface.title, scale.value(0), scale.value(1)) +
         surface.frame.lines(drawn);
}

std::string svg(const Surface& surface) {
  const int64_t cells = cells_of(surface);
  const Frame& frame = surface.frame;
  const Scale scale(surface.values.values(), Axis::linear);
  Page page{.width = 420, .height = 420, .right = 40, .bottom = 74};
  Image image{frame.width, frame.height, 3, {}};
  for (int64_t i = 0; i < cells; ++i) {
    const double value = surface.values.at(i), part = drawable(value) ? scale.at(value) : 0;
    for (const int full : {0x25, 0x63, 0xa8})
      image.pixels.push_back(uint8_t(std::lround(255 + part * 0.8 * (full - 255))));
  }
  page.body += fmt::format(
      "<image xmlns:xlink=\"http://www.w3.org/1999/xlink\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
      "preserveAspectRatio=\"none\" xlink:href=\"{}\"/>\n",
      page.left, page.top, page.width, page.height, data_uri(image));
  const auto lines = [&](const Array& values, double level, std::string_view colour, const char* dashes) {
    if (const std::string d = level_line(page, frame, values, level); !d.empty())
      page.body +=
          fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"{}/>\n", d, colour, dashes);
  };
  std::string heights;
  for (const double level : scale.empty() ? std::vector<double>() : scale.ticks()) {
    lines(surface.values, level, kInk, "");
    if (surface.truth.size() == cells) lines(surface.truth, level, kRed, " stroke-dasharray=\"5 4\"");
    heights += fmt::format("{}{:.3g}", heights.empty() ? "" : ", ", level);
  }
  page.corners(frame);
  page.label(page.left, page.y(0) + 52, "start",
             "lines at " + heights + (surface.truth.size() == cells ? "; dashed: where they should be" : ""));
  return page.finish(surface.title);
}

}  // namespace caravan::plot
