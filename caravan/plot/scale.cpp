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

std::string grouped(int64_t number) {
  std::string out = std::to_string(number);
  if (number < 10'000) return out;
  for (size_t at = out.size(); at > 3;) out.insert(at -= 3, ",");
  return out;
}

bool drawable(double value) { return std::fabs(value) <= 1e300; }

Scale::Scale(const std::vector<double>& values, Axis axis, bool from_zero) : axis_(axis) {
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
  if (from_zero && axis_ == Axis::linear && !empty_) low_ = std::min(low_, 0.0), high_ = std::max(high_, 0.0);
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

std::vector<double> Scale::ticks(double about) const {
  const bool decades = axis_ == Axis::logarithmic && high_ - low_ >= 2;  // then the ticks are powers of ten
  if (axis_ == Axis::logarithmic && !decades && high_ - low_ >= 0.5) {   // 1, 2 and 5 are about as far from each other
    std::vector<double> out;
    for (double power = std::floor(low_); power <= high_; ++power)
      for (double digit : {1, 2, 5})
        if (const double tick = digit * std::pow(10, power); at(tick) >= -1e-9 && at(tick) <= 1 + 1e-9)
          out.push_back(tick);
    return out;
  }
  const double low = decades ? low_ : value(0), high = decades ? high_ : value(1);
  const double exact = (high - low) / about, power = std::pow(10, std::floor(std::log10(exact)));
  double step = power;
  for (double factor : {2, 5, 10})
    if (step < exact) step = factor * power;
  if (decades) step = std::max(1.0, std::round(step));
  std::vector<double> out;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k)
    out.push_back(decades ? std::pow(10, k * step) : k * step + 0.0);  // never -0
  return out;
}

Scale scale_of(const Beside& beside) {
  std::vector<double> values;
  for (const Beside::Point& point : beside.points) values.push_back(point.value);
  return {values, Axis::linear};
}

int64_t Curve::last() const { return x_last != 0 ? x_last : std::max<int64_t>(1, int64_t(values.size())) * x_step; }

double across(const Curve& curve, double x) {
  const auto first = double(std::min(curve.x_step, curve.last())), last = double(curve.last());
  return last == first ? 0 : std::clamp((x - first) / (last - first), 0.0, 1.0);
}

}  // namespace caravan::plot
