#include "caravan/base/random.h"

#include <cmath>
#include <numbers>

#include "caravan/base/hash.h"

namespace caravan {

Word4 threefry4x32(Word4 counter, Word4 key) {
  constexpr int kRotation[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
  const uint32_t last = 0x1BD11BDA ^ key[0] ^ key[1] ^ key[2] ^ key[3];
  // After 4*fours rounds, word i of the injected key is schedule[fours + i].
  const uint32_t schedule[8] = {key[0], key[1], key[2], key[3], last, key[0], key[1], key[2]};
  auto mix = [](uint32_t& a, uint32_t& b, int by) {
    a += b;
    b = ((b << by) | (b >> (32 - by))) ^ a;
  };

  uint32_t a = counter[0] + key[0], b = counter[1] + key[1], c = counter[2] + key[2], d = counter[3] + key[3];
  // 20 rounds, four in each iteration. A loop over single rounds takes four times as long.
  for (int fours = 1; fours <= 5; ++fours) {
    const auto* by = kRotation + (fours % 2 == 1 ? 0 : 4);
    mix(a, b, by[0][0]), mix(c, d, by[0][1]);
    mix(a, d, by[1][0]), mix(c, b, by[1][1]);
    mix(a, b, by[2][0]), mix(c, d, by[2][1]);
    mix(a, d, by[3][0]), mix(c, b, by[3][1]);
    const uint32_t* inject = schedule + fours % 5;
    a += inject[0], b += inject[1], c += inject[2], d += inject[3] + uint32_t(fours);
  }
  return {a, b, c, d};
}

uint64_t hash_name(std::string_view name) { return hash_bytes(name); }

Word4 random_words(uint64_t seed, uint64_t name_hash, uint64_t step, uint64_t element) {
  auto low = [](uint64_t x) { return uint32_t(x); };
  auto high = [](uint64_t x) { return uint32_t(x >> 32); };
  return threefry4x32({low(element), high(element), low(step), high(step)},
                      {low(seed), high(seed), low(name_hash), high(name_hash)});
}

double unit_uniform(uint32_t word) { return double(word >> 8) * 0x1p-24; }

double unit_normal(uint32_t word0, uint32_t word1) {
  double radius = std::sqrt(-2 * std::log(double((word0 >> 8) + 1) * 0x1p-24));  // the argument is in (0, 1]
  return radius * std::cos(2 * std::numbers::pi * unit_uniform(word1));
}

}  // namespace caravan
