#include "caravan/plot/scale.h"

#include <algorithm>
#include <cmath>

namespace caravan::plot {

std::vector<double> thinned(const std::vector<double>& values, int columns) {
  const size_t n = values.size(), count = std::min(n, size_t(columns));
  std::vector<double> out;
  for (size_t c = 0; c < count; ++c) {
    const size_t from = c * n / count, to = (c + 1) * n / count;
    double total = 0;
    for (size_t i = from; i < to; ++i) total += values[i];
    out.push_back(total / double(to - from));
  }
  return out;
}

bool drawable(double value) { return std::fabs(value) <= 1e300; }

Scale::Scale(const std::vector<double>& values, Axis axis) : axis_(axis) {
  bool first = true;
  for (double v : values) {
    if (!drawable(v)) continue;
    empty_ = false;
    if (axis_ == Axis::logarithmic && v <= 0) continue;
    const double shown = axis_ == Axis::logarithmic ? std::log10(v) : v;
    low_ = first ? shown : std::min(low_, shown);
    high_ = first ? shown : std::max(high_, shown);
    first = false;
  }
  if (high_ - low_ <= 1e-9 * std::max(std::fabs(low_), std::fabs(high_))) {  // a constant lies in the middle
    const double room = axis_ == Axis::logarithmic || low_ == 0 ? 0.5 : std::fabs(low_) / 2;
    low_ -= room, high_ += room;
  }
}

double Scale::at(double value) const {
  if (axis_ == Axis::logarithmic) {
    if (value <= 0) return 0;
    value = std::log10(value);
  }
  return (value - low_) / (high_ - low_);
}

double Scale::value(double position) const {
  const double shown = low_ + (high_ - low_) * position;
  return axis_ == Axis::logarithmic ? std::pow(10, shown) : shown;
}

std::vector<double> Scale::ticks() const {
  const bool decades = axis_ == Axis::logarithmic && high_ - low_ >= 2;  // then the ticks are powers of ten
  const double low = decades ? low_ : value(0), high = decades ? high_ : value(1);
  constexpr double kAbout = 5;
  const double exact = (high - low) / kAbout, power = std::pow(10, std::floor(std::log10(exact)));
  double step = power;
  for (double factor : {2, 5, 10})
    if (step < exact) step = factor * power;
  if (decades) step = std::max(1.0, std::round(step));
  std::vector<double> out;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k)
    out.push_back(decades ? std::pow(10, k * step) : k * step);
  return out;
}

}  // namespace caravan::plot
