// From values to positions along an axis: what both kinds of curves share.
#pragma once

#include <string>
#include <vector>

#include "caravan/plot/plot.h"

namespace caravan::plot {

// The means of `columns` equal stretches; shorter lists stay as they are.
std::vector<double> thinned(const std::vector<double>& values, int columns);

std::string grouped(int64_t number);  // 300,000; numbers below 10,000 as they are

bool drawable(double value);  // finite, and no difference of two of them overflows

class Scale {
 public:
  Scale(const std::vector<double>& values, Axis axis, bool from_zero = false);  // of those that are drawable
  bool empty() const { return empty_; }
  double at(double value) const;                      // 0 at the bottom, 1 at the top
  double value(double position) const;                // its inverse
  std::vector<double> ticks(double about = 5) const;  // about so many round values in the range, rising

 private:
  bool empty_ = true;
  Axis axis_;
  double low_ = 0, high_ = 1;  // logarithms on a logarithmic axis
};
Scale scale_of(const Beside& beside);

// Where a curve's x lies: 0 at its first value, 1 at its last.
double across(const Curve& curve, double x);

}  // namespace caravan::plot
