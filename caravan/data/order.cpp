#include "caravan/data/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/base/random.h"

namespace caravan::data {

std::vector<int64_t> permutation(int64_t n, uint64_t seed, std::string_view stream, uint64_t step) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const uint64_t key = hash_name(stream);
  for (int64_t i = n - 1; i > 0; --i) {
    const Word4 w = random_words(seed, key, step, uint64_t(i));
    const uint64_t wide = uint64_t(w[0]) << 32 | w[1];
    std::swap(order[size_t(i)], order[size_t(wide % uint64_t(i + 1))]);
  }
  return order;
}

std::vector<std::vector<int64_t>> split_order(int64_t n, const std::vector<double>& fractions, uint64_t seed) {
  double total = 0;
  for (const double fraction : fractions) {
    if (!(fraction >= 0)) throw ConfigError(fmt::format("split: a fraction of {} cannot be.", fraction));
    total += fraction;
  }
  if (total > 1 + 1e-9)
    throw ConfigError(fmt::format("split: the fractions sum to {}; at most 1 can be given.", total));
  const std::vector<int64_t> order = permutation(n, seed, "split.order");
  std::vector<std::vector<int64_t>> out;
  double until = 0;
  int64_t begin = 0;
  for (const double fraction : fractions) {
    until += fraction;
    const int64_t end = std::min(n, int64_t(std::llround(until * double(n))));
    out.emplace_back(order.begin() + begin, order.begin() + end);
    begin = end;
  }
  return out;
}

}  // namespace caravan::data
