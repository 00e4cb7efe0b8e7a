#include "caravan/base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

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

// log(k / 2^24) for k from 1 to 2^24, as fdlibm computes it: k / 2^24 = 2^exponent (1 + f) with 1 + f between sqrt(1/2)
// and sqrt(2), and log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)) with s = f / (2 + f). There are no branches, so that
// loops become vector code, and no functions of the C library, which may round differently.
[[gnu::always_inline]] inline double log_of_share(int32_t k) {
  constexpr double kLog2High = 6.93147180369123816490e-01, kLog2Low = 1.90821492927058770002e-10;
  const auto bits = std::bit_cast<uint64_t>(double(k));
  constexpr uint64_t kFraction = (uint64_t(1) << 52) - 1, kSqrtHalf = 0x3fe6a09e667f3bcd;  // the bits of sqrt(1/2)
  const uint64_t above = bits - kSqrtHalf;  // its exponent field is that of k / sqrt(1/2)
  const uint64_t field = above >> 52;       // the exponent of 2
  const double f = std::bit_cast<double>((above & kFraction) + kSqrtHalf) - 1;
  // Or-ing the field to the bits of 2^52 makes the number 2^52 + field.
  const double exponent = std::bit_cast<double>(field | 0x4330000000000000) - 0x1p52 - 24;
  const double s = f / (2 + f), z = s * s, w = z * z;
  const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half = 0.5 * f * f;
  return exponent * kLog2High - ((half - (s * (half + (even + odd)) + exponent * kLog2Low)) - f);
}

// cos(2 pi k / 2^24) for k from 0 to 2^24 - 1, by fdlibm's polynomials for sin and cos in the nearest quarter of a
// turn.
[[gnu::always_inline]] inline double cos_of_share(int32_t k) {
  const int32_t quarter = (k + (1 << 21)) >> 22;
  const double x = double(k - (quarter << 22)) * (2 * std::numbers::pi * 0x1p-24), z = x * x;
  const double sine = x + x * z *
                              (-1.66666666666666324348e-01 +
                               z * (8.33333333332248946124e-03 +
                                    z * (-1.98412698298579493134e-04 +
                                         z * (2.75573137070700676789e-06 +
                                              z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
  const double rest = z * z *
                      (4.16666666666666019037e-02 +
                       z * (-1.38888888888741095749e-03 +
                            z * (2.48015872894767294178e-05 +
                                 z * (-2.75573143513906633035e-07 +
                                      z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const double half = 0.5 * z, one = 1 - half, cosine = one + (((1 - one) - half) + rest);
  // Quarter 0 is cos x, 1 is -sin x, 2 is -cos x, 3 is sin x.
  const double by_sine = double(quarter & 1), sign = 1 - double((quarter + 1) & 2);
  return sign * (by_sine * sine + (1 - by_sine) * cosine);
}

// A normal number is the square root of the first times the second.
[[gnu::always_inline]] inline double squared_radius(uint32_t word) { return -2 * log_of_share(int32_t(word >> 8) + 1); }
[[gnu::always_inline]] inline double direction(uint32_t word) { return cos_of_share(int32_t(word >> 8)); }

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

double unit_normal(uint32_t word0, uint32_t word1) { return std::sqrt(squared_radius(word0)) * direction(word1); }

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
    for (size_t e = 0; e < kBlock; ++e) squares[e] = squared_radius(a[e]), directions[e] = direction(b[e]);
    const size_t count = std::min(kBlock, out.size() - from);
    for (size_t e = 0; e < count; ++e) out[from + e] = std::sqrt(squares[e]) * directions[e];
  }
}

}  // namespace caravan
