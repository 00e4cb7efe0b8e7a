// Names at points of the plane.
#pragma once

#include <string>
#include <vector>

namespace caravan::plot {

struct NameMap {
  struct Place {
    std::string name;
    double x = 0, y = 0;  // a place that is no number is left out
  };
  std::string title, x_label, y_label;
  std::vector<Place> places;
};
std::string svg(const NameMap& map);

}  // namespace caravan::plot
