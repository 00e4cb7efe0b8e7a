// How the values of several lists are distributed, one line for each list.
#pragma once

#include <string>
#include <vector>

namespace caravan::plot {

struct Histograms {
  struct List {
    std::string name;
    std::vector<double> values;  // what is no number is left out
  };
  std::string title, x_label;
  std::vector<List> lists;  // at most five, which is how many colours there are
  int bins = 60;
};
std::string svg(const Histograms& histograms);  // the part of each list that falls into each bin

}  // namespace caravan::plot
