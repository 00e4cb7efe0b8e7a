#include "caravan/check/draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "caravan/base/random.h"

namespace caravan {

namespace {
constexpr uint64_t kSeed = 20240611;
}

double draw(const std::string& name, int64_t element, int64_t attempt, double low, double high) {
  const Word4 words = random_words(kSeed, hash_name(name), uint64_t(attempt), uint64_t(element));
  return low + (high - low) * unit_uniform(words[0]);
}

Array drawn(const std::string& name, const std::string& shape) {
  Array out(parse_shape(shape), DType::f64);
  for (int64_t e = 0; e < out.size(); ++e) {
    const double x = draw(name, e, 0, -1, 1);
    out.set(e, std::copysign(0.05 + 0.95 * std::abs(x), x));
  }
  return out;
}

Array spaced(const std::string& name, const std::string& shape) {
  const Array keys = drawn(name, shape);
  std::vector<int64_t> order(size_t(keys.size()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return keys.at(i) < keys.at(j); });
  Array out(keys.shape(), DType::f64);
  for (size_t rank = 0; rank < order.size(); ++rank)
    out.set(order[rank], 0.1 * (double(rank) - double(order.size() / 2)));
  return out;
}

Tensor leaf(const std::string& name, const std::string& shape) { return param(name, drawn(name, shape)); }
Tensor leaf_without_ties(const std::string& name, const std::string& shape) { return param(name, spaced(name, shape)); }

}  // namespace caravan
