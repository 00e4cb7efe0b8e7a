// How sure a model of two classes is at each point of the plane.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "caravan/plot/plot.h"

namespace caravan::plot {

struct Circle {
  double x = 0, y = 0, radius = 1;
};

struct Confidence {
  std::string title;
  Frame frame;          // its cells are the characters of `text`
  Array points;         // n|2
  Array probabilities;  // n: of class 1; where it is not a number the model says nothing
  Array labels;         // n: class 1 above 0, else class 0
  std::array<std::string, 2> classes = {"0", "1"};
  std::optional<Circle> circle{};  // where the classes really meet
};
std::string text(const Confidence& confidence);  // O and X where the model is sure, o and x where not, ! where wrong
std::string svg(const Confidence& confidence);   // large and opaque where the model is sure; wrong ones are outlined

}  // namespace caravan::plot
