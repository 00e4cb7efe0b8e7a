// What the SVG pictures share: colours, and a page with a title above a rectangle for the drawing.
// They are SVG 1.1: no script, no style sheet, nothing from elsewhere.
#pragma once

#include <string>
#include <string_view>

#include "caravan/plot/plot.h"

namespace caravan::plot {

inline constexpr std::string_view kInk = "#333333", kPale = "#dddddd", kBlue = "#2563a8", kRed = "#c2452d",
                                  kShade = "#fbe9e4";

std::string tint(std::string_view colour, double part);  // between white and a colour `#rrggbb`

struct Page {
  double width, height;  // of the drawing
  double left = 70, top = 40, right = 20, bottom = 50;
  bool framed = true;
  std::string body{};

  double x(double part) const { return left + part * width; }        // 0 at the left, 1 at the right
  double y(double part) const { return top + (1 - part) * height; }  // 0 at the bottom, 1 at the top

  void label(double at_x, double at_y, const char* anchor, const std::string& text, std::string_view colour = kInk,
             double size = 12);
  void line(double x1, double y1, double x2, double y2, std::string_view colour);
  void box(double at_x, double at_y, double wide, double high, std::string_view colour);
  void corners(const Frame& frame);  // their coordinates, outside
  std::string finish(const std::string& title) const;
};

}  // namespace caravan::plot
