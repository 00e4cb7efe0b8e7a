#include "apps/text_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace caravan::app {

namespace {

// The mean of each of `columns` equal stretches.
std::vector<double> thinned(const std::vector<double>& values, int columns) {
  std::vector<double> out;
  const size_t n = values.size(), count = std::min(n, size_t(columns));
  for (size_t c = 0; c < count; ++c) {
    const size_t from = c * n / count, to = (c + 1) * n / count;
    double total = 0;
    for (size_t i = from; i < to; ++i) total += values[i];
    out.push_back(total / double(to - from));
  }
  return out;
}

// From a value to a row: linear, or logarithmic with a last row for zeros.
class Scale {
 public:
  Scale(const std::vector<double>& values, int rows) : rows_(rows) {
    low_ = *std::min_element(values.begin(), values.end());
    high_ = *std::max_element(values.begin(), values.end());
    double least = high_;  // above 0
    for (double v : values)
      if (v > 0) least = std::min(least, v);
    logarithmic_ = low_ >= 0 && high_ > 20 * least;
    zero_row_ = logarithmic_ && low_ == 0;
    if (zero_row_) --rows_;
    if (logarithmic_) low_ = std::log10(least), high_ = std::log10(high_);
    if (high_ - low_ < 1e-12) high_ = low_ + 1;
  }
  bool logarithmic() const { return logarithmic_; }
  int row(double value) const {
    if (zero_row_ && value == 0) return rows_;
    return int(std::lround((high_ - (logarithmic_ ? std::log10(value) : value)) / (high_ - low_) * (rows_ - 1)));
  }
  double value(int row) const {
    if (zero_row_ && row == rows_) return 0;
    const double v = high_ - (high_ - low_) * row / (rows_ - 1);
    return logarithmic_ ? std::pow(10, v) : v;
  }

 private:
  int rows_;
  double low_, high_;
  bool logarithmic_, zero_row_;
};

}  // namespace

std::string curve(const std::vector<double>& values, const std::string& title, const std::string& x_label, int width,
                  int height) {
  std::vector<double> ys = thinned(values, width);
  std::erase_if(ys, [](double y) { return !std::isfinite(y); });
  if (ys.empty()) return title + ": nothing to draw\n";
  const Scale scale(ys, height);
  std::vector<std::vector<bool>> dot(size_t(height), std::vector<bool>(size_t(width), false));
  for (size_t i = 0; i < ys.size(); ++i) {
    const size_t column = ys.size() == 1 ? 0 : i * size_t(width - 1) / (ys.size() - 1);
    dot[size_t(scale.row(ys[i]))][column] = true;
  }

  std::string out = title + (scale.logarithmic() ? " (logarithmic)" : "") + "\n\n";
  for (int r = 0; r < height; ++r) {
    const bool labelled = r % 4 == 0 || r == height - 1;
    out += labelled ? fmt::format("{:>10.3g} ┤", scale.value(r)) : fmt::format("{:>10} │", "");
    for (bool on : dot[size_t(r)]) out += on ? "•" : " ";
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  std::string line;
  for (int c = 0; c < width; ++c) line += "─";
  return out + fmt::format("{:>10} └{}\n{:>12}1{:>{}}\n", "", line, "", fmt::format("{} {}", x_label, values.size()),
                           width - 1);
}

std::string scatter(const Frame& frame, const Array& points, const Array& labels, const Array& scores) {
  std::vector<std::string> rows(size_t(frame.height), std::string(size_t(frame.width), ' '));
  for (int r = 0; r < frame.height; ++r)
    for (int c = 0; c < frame.width; ++c)
      if (scores.at(int64_t(r) * frame.width + c) < 0) rows[size_t(r)][size_t(c)] = '.';
  for (int64_t i = 0; i < labels.size(); ++i) {
    const int c = int((points.at({i, 0}) - frame.left) / (frame.right - frame.left) * frame.width);
    const int r = int((frame.top - points.at({i, 1})) / (frame.top - frame.bottom) * frame.height);
    if (c >= 0 && c < frame.width && r >= 0 && r < frame.height)
      rows[size_t(r)][size_t(c)] = labels.at(i) > 0 ? 'o' : 'x';
  }
  std::string out;
  for (const std::string& row : rows) out += "  " + row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  return out;
}

}  // namespace caravan::app
