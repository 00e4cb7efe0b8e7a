// Probabilities side by side: what a model says of one example.
#pragma once

#include <string>
#include <vector>

namespace caravan::plot {

struct Bars {
  std::string title;
  std::vector<std::string> names;
  std::vector<double> values;  // 0 to 1; what lies outside is drawn at the end and named as it is
};
std::string text(const Bars& bars, int width = 40);  // of the longest bar
std::string svg(const Bars& bars);                   // the largest one in the darker colour

}  // namespace caravan::plot
