#include "caravan/base/random.h"

#include <cmath>
#include <numbers>

namespace caravan {

Word4 threefry4x32(Word4 counter, Word4 key) {
  constexpr int kRotation[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
  uint32_t schedule[5] = {key[0], key[1], key[2], key[3], 0x1BD11BDA};
  for (uint32_t word : key) schedule[4] ^= word;
  auto rotate = [](uint32_t x, int n) { return (x << n) | (x >> (32 - n)); };

  Word4 x = counter;
  for (int i = 0; i < 4; ++i) x[i] += schedule[i];
  for (int round = 0; round < 20; ++round) {
    const int* by = kRotation[round % 8];
    int first = round % 2 == 0 ? 1 : 3, second = round % 2 == 0 ? 3 : 1;
    x[0] += x[first], x[first] = rotate(x[first], by[0]) ^ x[0];
    x[2] += x[second], x[second] = rotate(x[second], by[1]) ^ x[2];
    if (round % 4 == 3) {  // inject the key after every fourth round
      int turn = round / 4 + 1;
      for (int i = 0; i < 4; ++i) x[i] += schedule[(turn + i) % 5];
      x[3] += uint32_t(turn);
    }
  }
  return x;
}

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return hash;
}

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
