#include "caravan/data/synthetic.h"
#include "caravan/data/loader.h"
#include "caravan/base/random.h"
#include <numeric>
namespace caravan::data {
std::vector<int64_t> permutation(int64_t n, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = n - 1; i > 0; --i) {
    const Word4 w = random_words(seed, hash_name("order"), 0, uint64_t(i));
    const uint64_t wide = uint64_t(w[0]) << 32 | w[1];
    std::swap(order[size_t(i)], order[size_t(wide % uint64_t(i + 1))]);
  }
  return order;
}
Products products(const ProductsOptions& o) {
  const uint64_t key = hash_name(o.stream);
  std::vector<float> xy, products;
  for (int64_t i = 0; i < o.points; ++i) {
    const Word4 w = random_words(o.seed, key, 0, uint64_t(i));
    const float x = float(3 * unit_uniform(w[0])), y = float(3 * unit_uniform(w[1]));
    xy.insert(xy.end(), {x, y});
    products.push_back(x * y);
  }
  Shape shape; shape.batch = {{o.points}}; shape.output = {{2}};
  Shape one = shape; one.output = {{1}};
  return {Array::from_floats(shape, xy.data()), Array::from_floats(one, products.data())};
}
LabelledPoints disc(const DiscOptions& o) {
  const uint64_t key = hash_name(o.stream);
  std::vector<float> xy; std::vector<double> labels;
  for (int64_t i = 0; i < o.points; ++i) {
    const Word4 w = random_words(o.seed, key, 0, uint64_t(i));
    const float x = float(o.half_width * (2 * unit_uniform(w[0]) - 1)), y = float(o.half_width * (2 * unit_uniform(w[1]) - 1));
    xy.insert(xy.end(), {x, y});
    labels.push_back(x * x + y * y > o.radius * o.radius);
  }
  Shape shape; shape.batch = {{o.points}}; shape.output = {{2}};
  Shape one; one.batch = {{o.points}};
  return {Array::from_floats(shape, xy.data()), Array(one, labels, DType::i32)};
}
}
