#include "caravan/plot/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/plot/words.h"

namespace caravan::plot {

std::string tint(std::string_view colour, double part) {
  const auto full = std::stoul(std::string(colour.substr(1)), nullptr, 16);
  const auto mixed = [&](int shift) { return 255 + std::lround(part * (double(full >> shift & 255) - 255)); };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(16), mixed(8), mixed(0));
}

void Page::label(double at_x, double at_y, const char* anchor, const std::string& text, std::string_view colour,
                 double size) {
  body += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\"", at_x, at_y, anchor);
  if (colour != kInk) body += fmt::format(" fill=\"{}\"", colour);
  if (size != 12) body += fmt::format(" font-size=\"{:.3g}\"", size);
  body += fmt::format(">{}</text>\n", escaped(text));
}

void Page::line(double x1, double y1, double x2, double y2, std::string_view colour) {
  body += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2,
                      colour);
}

void Page::box(double at_x, double at_y, double wide, double high, std::string_view colour) {
  body += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n", at_x, at_y,
                      wide, high, colour);
}

void Page::corners(const Frame& frame) {
  for (double corner : {0.0, 1.0}) {
    label(x(corner), y(0) + 20, corner == 0 ? "start" : "end",
          fmt::format("{:.4g}", frame.left + corner * (frame.right - frame.left)));
    label(x(0) - 8, y(corner) + 4, "end", fmt::format("{:.4g}", frame.bottom + corner * (frame.top - frame.bottom)));
  }
}

std::string Page::finish(const std::string& title) const {
  const double titled = left + 9 * double(columns(title)) + 10;  // about the width of its letters
  const double w = std::max(left + width + right, titled), h = top + height + bottom;
  const std::string head = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"{2}\">\n<title>{3}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{4}\" y=\"24\" font-size=\"15\">{3}</text>\n",
      w, h, kInk, escaped(title), left);
  const std::string frame =
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", left, top,
                  width, height, kInk);
  return head + body + (framed ? frame : "") + "</svg>\n";
}

}  // namespace caravan::plot
