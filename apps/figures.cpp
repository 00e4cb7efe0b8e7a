#include "apps/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/plot/scale.h"

namespace caravan::app {

std::string figure(double value) {
  if (std::isnan(value)) return "not a number";
  if (std::isinf(value)) return "infinite";
  return std::fabs(value) >= 1e4 && std::fabs(value) < 1e15 ? plot::grouped(std::llround(value))
                                                            : fmt::format("{:.4g}", value);
}

std::string speed(double per_second) {
  if (!(per_second >= 1000) || !std::isfinite(per_second)) return fmt::format("{:.3g}", per_second);
  const double unit = std::pow(10, std::floor(std::log10(per_second)) - 2);
  return plot::grouped(std::llround(std::round(per_second / unit) * unit));
}

std::string percent(double part) {
  if (!std::isfinite(part)) return figure(part);
  return part == 1 ? "100 %" : fmt::format("{:.2f} %", std::min(100 * part, part < 1 ? 99.99 : 100 * part));
}

std::string duration(double seconds) {
  if (!(seconds >= 0) || !std::isfinite(seconds)) return figure(seconds);
  if (seconds < 1e-3) return fmt::format("{:.3g} µs", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.2g} s", seconds);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = std::llround(std::min(seconds, 1e12));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::string megabytes(int64_t bytes) { return fmt::format("{:.1f} MB", double(bytes) / 1e6); }
std::string counted(int64_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", plot::grouped(count), count == 1 ? one : many);
}

}  // namespace caravan::app
