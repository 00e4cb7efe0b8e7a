#include "caravan/data/synthetic.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "caravan/base/error.h"
#include "caravan/base/random.h"

namespace caravan::data {

namespace {

// A random order of 0..n-1 (Fisher-Yates), a function of seed and stream alone.
std::vector<int64_t> shuffled(int64_t n, uint64_t seed, const char* stream) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  uint64_t key = hash_name(stream);
  for (int64_t i = n - 1; i > 0; --i) {
    Word4 w = random_words(seed, key, 0, uint64_t(i));
    uint64_t wide = uint64_t(w[0]) << 32 | w[1];
    std::swap(order[size_t(i)], order[size_t(wide % uint64_t(i + 1))]);
  }
  return order;
}

}  // namespace

LabelledPoints half_moons(const HalfMoonsOptions& options) {
  if (options.points < 2 || options.points % 2 != 0)
    throw ConfigError("half_moons: " + std::to_string(options.points) +
                      " points; give an even number, half for each moon.");
  const int64_t n = options.points, half = n / 2;
  const uint64_t noise_key = hash_name("half_moons.noise");
  std::vector<double> xy, label;
  for (int64_t i = 0; i < n; ++i) {
    double v = double(i / 2) * std::numbers::pi / double(half), c = std::cos(v), s = std::sin(v);
    Word4 w = random_words(options.seed, noise_key, 0, uint64_t(i));
    double dx = options.noise * (2 * unit_uniform(w[0]) - 1), dy = options.noise * (2 * unit_uniform(w[1]) - 1);
    bool upper = i % 2 == 0;
    xy.push_back((upper ? c : 1 - c) + dx);
    xy.push_back((upper ? s : 0.5 - s) + dy);
    label.push_back(upper ? 1 : -1);
  }
  std::vector<int64_t> order = shuffled(n, options.seed, "half_moons.order");
  Shape points, labels;
  points.batch = labels.batch = {{n}};
  points.output = {{2}};
  labels.output = {{1}};
  return {Array(points, xy).take(order), Array(labels, label).take(order)};
}

}  // namespace caravan::data
