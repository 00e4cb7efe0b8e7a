#include "caravan/data/order.h"

#include <numeric>
#include <utility>

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

}  // namespace caravan::data
