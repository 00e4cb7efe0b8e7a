#include "caravan/base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "caravan/base/hash.h"

// A function is compiled for several kinds of vectors, and the one for this processor is called. This file is compiled
// without fused multiply-add (CMakeLists.txt), so that all of them give the same bits. (A sanitizer would run before
// the choice is made.)
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && defined(__GNUC__) && !defined(__clang__)
#define CARAVAN_FOR_EACH_VECTOR [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define CARAVAN_FOR_EACH_VECTOR
#endif

namespace caravan {

namespace {

// The functions below are inlined always, because GCC vectorises a loop only if the functions that it calls are.

// Four of the 20 rounds of Threefry-4x32 for `n` counters, whose words are a, b, c and d. The distances of rotations
// are constants, without which the compiler would not turn the loop into vector code.
template <int fours, size_t n>
[[gnu::always_inline]] inline void four_rounds(uint32_t (&a)[n], uint32_t (&b)[n], uint32_t (&c)[n], uint32_t (&d)[n],
                                               const uint32_t (&schedule)[8]) {
  constexpr int kOdd[4][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}},
                kEven[4][2] = {{6, 20}, {17, 11}, {25, 10}, {18, 20}};
  const auto& by = fours % 2 == 1 ? kOdd : kEven;
  auto mix = [](uint32_t& to, uint32_t& from, int distance) {
    to += from;
    from = ((from << distance) | (from >> (32 - distance))) ^ to;
  };
  const uint32_t* inject = schedule + fours % 5;  // word i of the injected key
  const uint32_t in0 = inject[0], in1 = inject[1], in2 = inject[2], in3 = inject[3] + uint32_t(fours);
  for (size_t e = 0; e < n; ++e) {
    uint32_t w = a[e], x = b[e], y = c[e], z = d[e];
    mix(w, x, by[0][0]), mix(y, z, by[0][1]);
    mix(w, z, by[1][0]), mix(y, x, by[1][1]);
    mix(w, x, by[2][0]), mix(y, z, by[2][1]);
    mix(w, z, by[3][0]), mix(y, x, by[3][1]);
    a[e] = w + in0, b[e] = x + in1, c[e] = y + in2, d[e] = z + in3;
  }
}
template <size_t n>
[[gnu::always_inline]] inline void threefry(uint32_t (&a)[n], uint32_t (&b)[n], uint32_t (&c)[n], uint32_t (&d)[n],
                                            const Word4& key) {
  const uint32_t last = 0x1BD11BDA ^ key[0] ^ key[1] ^ key[2] ^ key[3];
  const uint32_t schedule[8] = {key[0], key[1], key[2], key[3], last, key[0], key[1], key[2]};
  for (size_t e = 0; e < n; ++e) a[e] += key[0], b[e] += key[1], c[e] += key[2], d[e] += key[3];
  four_rounds<1>(a, b, c, d, schedule);
  four_rounds<2>(a, b, c, d, schedule);
  four_rounds<3>(a, b, c, d, schedule);
  four_rounds<4>(a, b, c, d, schedule);
  four_rounds<5>(a, b, c, d, schedule);
}

uint32_t low(uint64_t x) { return uint32_t(x); }
uint32_t high(uint64_t x) { return uint32_t(x >> 32); }

// What prelude/normal.h asks for.
#define CARAVAN_INLINE [[gnu::always_inline]] inline
CARAVAN_INLINE uint64_t caravan_bits_of(double x) { return std::bit_cast<uint64_t>(x); }
CARAVAN_INLINE double caravan_double_of(uint64_t bits) { return std::bit_cast<double>(bits); }
#include "caravan/base/prelude/normal.h"
#undef CARAVAN_INLINE

}  // namespace

Word4 threefry4x32(Word4 counter, Word4 key) {
  uint32_t a[1] = {counter[0]}, b[1] = {counter[1]}, c[1] = {counter[2]}, d[1] = {counter[3]};
  threefry(a, b, c, d, key);
  return {a[0], b[0], c[0], d[0]};
}

uint64_t hash_name(std::string_view name) { return hash_bytes(name); }

Word4 random_words(uint64_t seed, uint64_t name_hash, uint64_t step, uint64_t element) {
  return threefry4x32({low(element), high(element), low(step), high(step)},
                      {low(seed), high(seed), low(name_hash), high(name_hash)});
}

double unit_uniform(uint32_t word) { return double(word >> 8) * 0x1p-24; }

double unit_normal(uint32_t word0, uint32_t word1) {
  return std::sqrt(caravan_squared_radius(word0)) * caravan_direction(word1);
}

CARAVAN_FOR_EACH_VECTOR
void unit_normals(uint64_t seed, uint64_t name_hash, uint64_t step, uint64_t first, std::span<double> out) {
  constexpr size_t kBlock = 64;  // elements; their words fit into the nearest cache
  uint32_t a[kBlock], b[kBlock], c[kBlock], d[kBlock];
  double squares[kBlock], directions[kBlock];
  for (size_t from = 0; from < out.size(); from += kBlock) {
    for (size_t e = 0; e < kBlock; ++e) {
      const uint64_t element = first + from + e;
      a[e] = low(element), b[e] = high(element), c[e] = low(step), d[e] = high(step);
    }
    threefry(a, b, c, d, {low(seed), high(seed), low(name_hash), high(name_hash)});
    for (size_t e = 0; e < kBlock; ++e)
      squares[e] = caravan_squared_radius(a[e]), directions[e] = caravan_direction(b[e]);
    const size_t count = std::min(kBlock, out.size() - from);
    for (size_t e = 0; e < count; ++e) out[from + e] = std::sqrt(squares[e]) * directions[e];
  }
}

void draw(const Drawing& d, uint64_t from, std::span<double> out) {
  if (d.normal)
    unit_normals(d.seed, d.name_hash, 0, from, out);
  else
    for (size_t e = 0; e < out.size(); ++e) out[e] = unit_uniform(random_words(d.seed, d.name_hash, 0, from + e)[0]);
  for (double& n : out) n = d.value(n);
}

}  // namespace caravan
