#include <cmath>

#include "caravan/array/array.h"
#include "caravan/base/error.h"
#include "caravan/base/random.h"

namespace caravan {

namespace {

// Element i is a function of four random words, which are keyed by the seed, the kind of the array and i.
template <class T, class Draw>
Array drawn(Shape shape, DType dtype, const char* kind, uint64_t seed, Draw draw) {
  Array out(std::move(shape), dtype);
  T* to = static_cast<T*>(out.mutable_data());
  const uint64_t key = hash_name(kind);
  for (int64_t i = 0; i < out.size(); ++i) to[i] = T(draw(random_words(seed, key, 0, uint64_t(i))));
  return out;
}

}  // namespace

Array random_normal(Shape shape, uint64_t seed, double mean, double deviation, Source where) {
  const WrittenAt at(where);
  return drawn<float>(std::move(shape), DType::f32, "random_normal", seed,
                      [=](const Word4& words) { return mean + deviation * unit_normal(words[0], words[1]); });
}

Array random_uniform(Shape shape, uint64_t seed, double low, double high, Source where) {
  const WrittenAt at(where);
  return drawn<float>(std::move(shape), DType::f32, "random_uniform", seed, [=](const Word4& words) {
    // Rounding to f32 could reach `high`, which is not in the range.
    const float value = float(low + (high - low) * unit_uniform(words[0]));
    return value < float(high) ? value : std::nextafter(float(high), float(low));
  });
}

Array random_ids(Shape shape, int64_t range, uint64_t seed, Source where) {
  const WrittenAt at(where);
  if (range < 1 || range > int64_t(1) << 31)
    throw ConfigError("random_ids draws from 0 .. range - 1; the range " + std::to_string(range) +
                      " is not in 1 .. 2^31.");
  return drawn<int32_t>(std::move(shape), DType::i32, "random_ids", seed, [=](const Word4& words) {
    const uint64_t bits = uint64_t(words[0]) << 32 | words[1];  // 64 bits: the bias is below 2^-33
    return int64_t(bits % uint64_t(range));
  });
}

}  // namespace caravan
