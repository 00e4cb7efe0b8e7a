#include "caravan/data/synthetic.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "caravan/base/error.h"
#include "caravan/base/random.h"
#include "caravan/data/order.h"

namespace caravan::data {

namespace {

struct PointOfCurve {
  double x, y;
};

Shape rows_of(int64_t n, int64_t columns) {
  Shape out;
  out.batch = {{n}};
  out.output = {{columns}};
  return out;
}

// Two curves with as many points each, by turns; noise on both coordinates, and shuffled. `at(upper, i, half)` is
// point i of `half`.
template <class Curve>
LabelledPoints two_curves(const std::string& name, const char* part, int64_t n, double noise, uint64_t seed, Curve at) {
  if (n < 2 || n % 2 != 0)
    throw ConfigError(fmt::format("{}: {} points; give an even number, half for each {}.", name, n, part));
  const uint64_t noise_key = hash_name(name + ".noise");
  std::vector<double> xy, label;
  for (int64_t i = 0; i < n; ++i) {
    const bool upper = i % 2 == 0;
    const PointOfCurve p = at(upper, i / 2, n / 2);
    const Word4 w = random_words(seed, noise_key, 0, uint64_t(i));
    xy.push_back(p.x + noise * (2 * unit_uniform(w[0]) - 1));
    xy.push_back(p.y + noise * (2 * unit_uniform(w[1]) - 1));
    label.push_back(upper ? 1 : -1);
  }
  const std::vector<int64_t> order = permutation(n, seed, name + ".order");
  return {Array(rows_of(n, 2), xy).take(order), Array(rows_of(n, 1), label).take(order)};
}

void check_points(const char* name, int64_t n) {
  if (n < 1) throw ConfigError(fmt::format("{}: {} points; give a positive number.", name, n));
}

}  // namespace

LabelledPoints half_moons(const HalfMoonsOptions& o, Source where) {
  const WrittenAt at(where);
  return two_curves("half_moons", "moon", o.points, o.noise, o.seed,
                    [](bool upper, int64_t i, int64_t half) -> PointOfCurve {
                      const double v = double(i) * std::numbers::pi / double(half), c = std::cos(v), s = std::sin(v);
                      return {upper ? c : 1 - c, upper ? s : 0.5 - s};
                    });
}

LabelledPoints circles(const CirclesOptions& o, Source where) {
  const WrittenAt at(where);
  return two_curves("circles", "ring", o.points, o.noise, o.seed,
                    [&](bool upper, int64_t i, int64_t half) -> PointOfCurve {
                      const double v = 2 * double(i) * std::numbers::pi / double(half), radius = upper ? o.inner : 1;
                      return {radius * std::cos(v), radius * std::sin(v)};
                    });
}

LabelledPoints spirals(const SpiralsOptions& o, Source where) {
  const WrittenAt at(where);
  return two_curves("spirals", "arm", o.points, o.noise, o.seed,
                    [&](bool upper, int64_t i, int64_t half) -> PointOfCurve {
                      const double along = double(i) / double(half), radius = 0.1 + 0.9 * along;
                      const double v = 2 * std::numbers::pi * o.turns * along, sign = upper ? 1 : -1;
                      return {sign * radius * std::cos(v), sign * radius * std::sin(v)};
                    });
}

LabelledPoints disc(const DiscOptions& o, Source where) {
  const WrittenAt at(where);
  check_points("disc", o.points);
  const uint64_t key = hash_name(o.stream);
  std::vector<double> xy, label;
  for (int64_t i = 0; i < o.points; ++i) {
    const Word4 w = random_words(o.seed, key, 0, uint64_t(i));
    const double x = o.half_side * (2 * unit_uniform(w[0]) - 1), y = o.half_side * (2 * unit_uniform(w[1]) - 1);
    xy.insert(xy.end(), {x, y});
    label.push_back(x * x + y * y < o.radius * o.radius ? 1 : -1);
  }
  return {Array(rows_of(o.points, 2), xy), Array(rows_of(o.points, 1), label)};
}

LabelledPoints products(const ProductsOptions& o, Source where) {
  const WrittenAt at(where);
  check_points("products", o.points);
  const uint64_t key = hash_name(o.stream);
  std::vector<float> xy, product;
  for (int64_t i = 0; i < o.points; ++i) {
    const Word4 w = random_words(o.seed, key, 0, uint64_t(i));
    const float x = float(o.largest * unit_uniform(w[0])), y = float(o.largest * unit_uniform(w[1]));
    xy.insert(xy.end(), {x, y});
    product.push_back(x * y);
  }
  return {Array(rows_of(o.points, 2), xy), Array(rows_of(o.points, 1), product)};
}

}  // namespace caravan::data
