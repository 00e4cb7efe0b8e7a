#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Elementary functions as straight-line IEEE arithmetic: no branches, tables or calls of the C library (but pow's
   rint, an instruction from SSE4.1 on), so compilers turn a loop of them into vector code. No fused operations are
   relied upon: compiled with -ffp-contract=off (and without -ffast-math, rounding to nearest), every compiler and
   vector width gives the same bits, but for the sign and payload of a NaN. -fno-math-errno -fno-trapping-math let gcc
   choose between two results without a branch.

   Errors in units in the last place, as tests/math_prelude_test.cpp checks them on samples. They are not proved: they
   are the largest seen at 3e7 points (f32) and 4e6 points (f64), rounded up.

             f32   f64                               f32   f64
     exp     1.0   1.0                       sin     1.4   1.0   |x| <= 1.6e6 (f32), 1e9 (f64)
     exp2    1.0   1.1                       cos     1.4   1.0   as sin
     expm1   1.6   1.7                       tan     0.6   2.5   as sin
     log     1.0   1.0                       tanh    1.8   1.8   never beyond 1
     log2    1.0   1.0                       erf     1.3   1.5   never beyond 1
     log1p   1.5   1.5                       atan2   0.6   2.5
                                             pow     0.6   1.3

   Special values (infinities, NaN, signed zeros, poles, domain errors) are those of C99's Annex F, except:
   - exp_f32 and exp2_f32 give 0 where the result would be denormal (x < -87.3365, x < -126); the others round denormal
     results as any other, and all take denormal arguments;
   - beyond the range given, the absolute error of sin and cos is up to |x| 1.2e-16 more, f32 and f64 alike; from |x| of
     3e15 on the results are meaningless, though in [-1, 1].

   Methods are those of Cephes and fdlibm: Cody and Waite's reductions by exact products; exp by a polynomial; log
   through s = f/(2+f); tanh by its addition theorem; erf by 1 - exp(-p(x)) away from 0 and an odd polynomial near it;
   pow through a logarithm in two doubles (Dekker). Adding 1.5*2^23 (1.5*2^52) rounds to an integer and leaves it in
   the low bits of the sum. All polynomials are minimax fits of our own (Remez, in 50 digits), for relative error. */

static inline uint32_t caravan_bits_f32(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
static inline uint64_t caravan_bits_f64(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  return u;
}
static inline float caravan_of_bits_f32(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}
static inline double caravan_of_bits_f64(uint64_t u) {
  double x;
  memcpy(&x, &u, 8);
  return x;
}
#define CARAVAN_INF_F32 caravan_of_bits_f32(0x7f800000u)
#define CARAVAN_NAN_F32 caravan_of_bits_f32(0x7fc00000u)
#define CARAVAN_INF_F64 caravan_of_bits_f64(0x7ff0000000000000u)
#define CARAVAN_NAN_F64 caravan_of_bits_f64(0x7ff8000000000000u)
#define CARAVAN_ROUND_F32 0x1.8p23f
#define CARAVAN_ROUND_F64 0x1.8p52

/* ---- exp, exp2, expm1 ---- */

/* e^r for |r| <= ln(2)/2. */
static inline float caravan_exp_kernel_f32(float r) {
  float s = r * r;
  float q = (0.49999994f + 0.166665196f * r) + s * ((0.0416683927f + 0.0083687976f * r) + s * 0.00138146733f);
  return 1.0f + (r + s * q);
}
/* (e^r - 1 - r) / r^2 */
static inline float caravan_expm1_kernel_f32(float r) {
  float s = r * r;
  float p = (0.041666355f + 0.0083332723f * r) + s * (0.00139411271f + 0.000199144066f * r);
  return (0.5f + 0.166666672f * r) + s * p;
}
static inline double caravan_expm1_kernel_f64(double r) {
  double s = r * r;
  double even = 2.092459972403564e-09;
  even = even * s + 2.755724224125696e-07;
  even = even * s + 2.4801587361188107e-05;
  even = even * s + 0.0013888888888866492;
  even = even * s + 0.041666666666666699;
  even = even * s + 0.5;
  double odd = 2.5109173971725305e-08;
  odd = odd * s + 2.7557243841867238e-06;
  odd = odd * s + 0.00019841269886463348;
  odd = odd * s + 0.0083333333333215093;
  odd = odd * s + 0.16666666666666677;
  return even + r * odd;
}
/* y * 2^n, rounding once, for |n| < 2000; n is in the low bits of t = n + CARAVAN_ROUND_F64. */
static inline double caravan_scale_f64(double y, double t) {
  uint64_t k = (caravan_bits_f64(t) + 2048) & 4095; /* n + 2 * 1024, a factor of 2^(k/2 - 1024) twice */
  uint64_t half = k >> 1;
  return y * caravan_of_bits_f64((half - 1) << 52) * caravan_of_bits_f64((k - half - 1) << 52);
}

/* e^x for |x| < 87, unchecked. */
static inline float caravan_exp_inner_f32(float x) {
  float t = x * 0x1.715476p0f + CARAVAN_ROUND_F32, n = t - CARAVAN_ROUND_F32;
  float r = (x - n * 0x1.62e4p-1f) - n * 1.42860677e-06f;
  return caravan_of_bits_f32(caravan_bits_f32(caravan_exp_kernel_f32(r)) + (caravan_bits_f32(t) << 23));
}
static inline float caravan_exp_f32(float x) {
  float y = caravan_exp_inner_f32(x);
  y = x < -0x1.5d589ep6f ? 0.0f : y;
  return x <= 0x1.62e42ep6f ? y : x + CARAVAN_INF_F32;
}
static inline float caravan_exp2_f32(float x) {
  float t = x + CARAVAN_ROUND_F32;
  float y = caravan_exp_kernel_f32((x - (t - CARAVAN_ROUND_F32)) * 0x1.62e43p-1f);
  y = caravan_of_bits_f32(caravan_bits_f32(y) + (caravan_bits_f32(t) << 23));
  y = x < -126.0f ? 0.0f : y;
  return x < 128.0f ? y : x + CARAVAN_INF_F32;
}
static inline double caravan_exp_f64(double x) {
  double c = x < -746.0 ? -746.0 : x;
  c = c > 710.0 ? 710.0 : c;
  double t = c * 0x1.71547652b82fep0 + CARAVAN_ROUND_F64, n = t - CARAVAN_ROUND_F64;
  double r = (c - n * 0x1.62e42fefa3p-1) - n * 0x1.3de6af278ece6p-42;
  return caravan_scale_f64(1.0 + (r + r * r * caravan_expm1_kernel_f64(r)), t);
}
static inline double caravan_exp2_f64(double x) {
  double c = x < -1080.0 ? -1080.0 : x;
  c = c > 1025.0 ? 1025.0 : c;
  double t = c + CARAVAN_ROUND_F64;
  double r = (c - (t - CARAVAN_ROUND_F64)) * 0x1.62e42fefa39efp-1;
  return caravan_scale_f64(1.0 + (r + r * r * caravan_expm1_kernel_f64(r)), t);
}
/* 2^k (e^r - 1) + (2^k - 1), halved and doubled lest 2^k overflow first. `low` is what r lost to rounding. */
static inline float caravan_expm1_f32(float x) {
  float c = x < -30.0f ? -30.0f : x;
  c = c > 89.0f ? 89.0f : c;
  float t = c * 0x1.715476p0f + CARAVAN_ROUND_F32, n = t - CARAVAN_ROUND_F32;
  float high = c - n * 0x1.62e4p-1f, tail = n * 1.42860677e-06f, r = high - tail, low = (high - r) - tail;
  float p = r + (r * r * caravan_expm1_kernel_f32(r) + low);
  float half = caravan_of_bits_f32((caravan_bits_f32(t) << 23) + (126u << 23));
  float y = (half * p + (half - 0.5f)) * 2.0f;
  return fabsf(x) < 0x1p-25f ? x : y;
}
static inline double caravan_expm1_f64(double x) {
  double c = x < -50.0 ? -50.0 : x;
  c = c > 710.0 ? 710.0 : c;
  double t = c * 0x1.71547652b82fep0 + CARAVAN_ROUND_F64, n = t - CARAVAN_ROUND_F64;
  double high = c - n * 0x1.62e42fefa3p-1, tail = n * 0x1.3de6af278ece6p-42, r = high - tail, low = (high - r) - tail;
  double p = r + (r * r * caravan_expm1_kernel_f64(r) + low);
  double half = caravan_of_bits_f64((caravan_bits_f64(t) << 52) + (1022ull << 52));
  double y = (half * p + (half - 0.5)) * 2.0;
  return fabs(x) < 0x1p-54 ? x : y;
}

/* ---- log, log2, log1p ---- */

/* With z = s^2: (log((1+s)/(1-s)) - 2s) / s, for 1+f from sqrt(1/2) to sqrt(2) and s = f/(2+f). */
static inline float caravan_log_kernel_f32(float z) {
  return z * (0.666667759f + z * (0.399775416f + z * 0.298717737f));
}
static inline double caravan_log_kernel_f64(double z) {
  double w = z * z;
  double odd = 0.39999999999414287 + w * (0.22222198560362499 + w * 0.15314030497724618);
  double even = 0.6666666666666734 + w * (0.28571428742497185 + w * (0.18183565056575526 + w * 0.14796162189162085));
  return z * (even + z * odd);
}
/* The values where log is not finite: y for 0 < x < inf. */
static inline float caravan_log_ends_f32(float x, float y) {
  y = x < CARAVAN_INF_F32 ? y : x;
  y = x == 0.0f ? -CARAVAN_INF_F32 : y;
  return x < 0.0f ? CARAVAN_NAN_F32 : y;
}
static inline double caravan_log_ends_f64(double x, double y) {
  y = x < CARAVAN_INF_F64 ? y : x;
  y = x == 0.0 ? -CARAVAN_INF_F64 : y;
  return x < 0.0 ? CARAVAN_NAN_F64 : y;
}
/* The integer u >> 52 (< 2048) less 1023, as a double. */
static inline double caravan_exponent_f64(uint64_t u) {
  return caravan_of_bits_f64(u >> 52 | 0x4330000000000000u) - (0x1p52 + 1023.0);
}

static inline float caravan_log_f32(float x) {
  float scaled = x < 0x1p-126f ? x * 0x1p23f : x;
  uint32_t u = caravan_bits_f32(scaled) - (x < 0x1p-126f ? 0x3f3504f3u + (23u << 23) : 0x3f3504f3u);
  float k = (float)((int32_t)u >> 23);
  float f = caravan_of_bits_f32((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  float s = f / (2.0f + f);
  float y = f - (s * (f - caravan_log_kernel_f32(s * s)) - k * 1.42860677e-06f);
  return caravan_log_ends_f32(x, k * 0x1.62e4p-1f + y);
}
static inline double caravan_log_f64(double x) {
  int tiny = x < 0x1p-1022;
  double scaled = tiny ? x * 0x1p54 : x;
  uint64_t u = caravan_bits_f64(scaled) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  double k = caravan_exponent_f64(u);
  k = tiny ? k - 54.0 : k;
  double f = caravan_of_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
  double s = f / (2.0 + f), h = 0.5 * f * f;
  double y = f - (h - (s * (h + caravan_log_kernel_f64(s * s)) + k * 0x1.3de6af278ece6p-42));
  return caravan_log_ends_f64(x, k * 0x1.62e42fefa3p-1 + y);
}

/* log2(e) and the leading part of log(1+f) are split so that the product of their upper parts is exact. */
static inline float caravan_log2_f32(float x) {
  float scaled = x < 0x1p-126f ? x * 0x1p23f : x;
  uint32_t u = caravan_bits_f32(scaled) - (x < 0x1p-126f ? 0x3f3504f3u + (23u << 23) : 0x3f3504f3u);
  float k = (float)((int32_t)u >> 23);
  float f = caravan_of_bits_f32((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  float s = f / (2.0f + f), h = 0.5f * f * f;
  float high = caravan_of_bits_f32(caravan_bits_f32(f - h) & 0xfffff000u);
  float low = ((f - high) - h) + s * (h + caravan_log_kernel_f32(s * s));
  float a = high * 0x1.714p0f, b = (low + high) * 3.12228396e-04f + low * 0x1.714p0f;
  float w = k + a;
  return caravan_log_ends_f32(x, (b + ((k - w) + a)) + w);
}
static inline double caravan_log2_f64(double x) {
  int tiny = x < 0x1p-1022;
  double scaled = tiny ? x * 0x1p54 : x;
  uint64_t u = caravan_bits_f64(scaled) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  double k = caravan_exponent_f64(u);
  k = tiny ? k - 54.0 : k;
  double f = caravan_of_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
  double s = f / (2.0 + f), h = 0.5 * f * f;
  double high = caravan_of_bits_f64(caravan_bits_f64(f - h) & 0xffffffff00000000u);
  double low = ((f - high) - h) + s * (h + caravan_log_kernel_f64(s * s));
  double a = high * 0x1.7154765p0, b = (low + high) * 0x1.5c17f0bbbe88p-31 + low * 0x1.7154765p0;
  double w = k + a;
  return caravan_log_ends_f64(x, (b + ((k - w) + a)) + w);
}

/* log of u = 1+x, with what the sum lost added back to f. */
static inline float caravan_log1p_f32(float x) {
  float sum = 1.0f + x, less = sum - 1.0f, lost = (1.0f - (sum - less)) + (x - less);
  uint32_t u = caravan_bits_f32(sum) - 0x3f3504f3u;
  int32_t k = (int32_t)u >> 23, shift = k > 126 ? 126 : k;
  float n = (float)k, f = caravan_of_bits_f32((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  f = f + lost * caravan_of_bits_f32((uint32_t)(127 - shift) << 23);
  float s = f / (2.0f + f), h = 0.5f * f * f;
  float y = f - (h - (s * (h + caravan_log_kernel_f32(s * s)) + n * 1.42860677e-06f));
  y = caravan_log_ends_f32(sum, n * 0x1.62e4p-1f + y);
  return fabsf(x) < 0x1p-25f ? x : y;
}
static inline double caravan_log1p_f64(double x) {
  double sum = 1.0 + x, less = sum - 1.0, lost = (1.0 - (sum - less)) + (x - less);
  uint64_t u = caravan_bits_f64(sum) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  double k = caravan_exponent_f64(u), f = caravan_of_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
  double unit = caravan_of_bits_f64((2046 - (u >> 52)) << 52);
  f = f + lost * (sum < 0x1p60 ? unit : 0.0);
  double s = f / (2.0 + f), h = 0.5 * f * f;
  double y = f - (h - (s * (h + caravan_log_kernel_f64(s * s)) + k * 0x1.3de6af278ece6p-42));
  y = caravan_log_ends_f64(sum, k * 0x1.62e42fefa3p-1 + y);
  return fabs(x) < 0x1p-54 ? x : y;
}

/* ---- sin, cos, tan ---- */

/* sin (turn 0) or cos (turn 1) of x, in the quadrant turn + round(x / (pi/2)). The reduction is in double. */
static inline float caravan_wave_f32(float x, uint32_t turn) {
  double d = x;
  double t = d * 0x1.45f306dc9c883p-1 + CARAVAN_ROUND_F64, n = t - CARAVAN_ROUND_F64;
  double rest = (d - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
  rest = rest < -0.7860 ? -0.7860 : rest;
  rest = rest > 0.7860 ? 0.7860 : rest;
  float r = (float)rest, low = (float)(rest - (double)r);
  uint32_t q = (uint32_t)caravan_bits_f64(t) + turn;
  float z = r * r;
  float sine = r + (r * (z * (-0.166666552f + z * (0.00833217613f + z * -0.00019517004f))) + low);
  float cosine = 1.0f - (0.5f * z - z * z * (0.0416666456f + z * (-0.0013887313f + z * 2.4432733e-05f)));
  float y = q & 1u ? cosine : sine;
  return caravan_of_bits_f32(caravan_bits_f32(y) ^ (q & 2u) << 30);
}
static inline float caravan_sin_f32(float x) {
  float y = caravan_wave_f32(fabsf(x), 0);
  return caravan_of_bits_f32(caravan_bits_f32(y) ^ (caravan_bits_f32(x) & 0x80000000u));
}
static inline float caravan_cos_f32(float x) { return caravan_wave_f32(x, 1); }
static inline float caravan_tan_f32(float x) {
  double d = fabs((double)x);
  double t = d * 0x1.45f306dc9c883p-1 + CARAVAN_ROUND_F64, n = t - CARAVAN_ROUND_F64;
  double r = (d - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
  r = r < -0.7860 ? -0.7860 : r;
  r = r > 0.7860 ? 0.7860 : r;
  uint64_t q = caravan_bits_f64(t);
  double z = r * r;
  double sine = r + r * (z * ((-0.16666666641533354 + z * 0.0083333293745503929) +
                              z * z * (-0.00019839331084188662 + z * 2.7182750182238053e-06)));
  double cosine = 1.0 - (0.5 * z - z * z *
                                       ((0.041666666619313002 + z * -0.001388888348335562) +
                                        z * z * (2.4799455594645151e-05 + z * -2.7205372236607002e-07)));
  double above = q & 1u ? cosine : sine, below = q & 1u ? sine : cosine;
  double y = above / below;
  return (float)caravan_of_bits_f64(caravan_bits_f64(y) ^ ((q << 63) ^ (caravan_bits_f64((double)x) & 1ull << 63)));
}

/* sin and cos of r + low for |r| <= pi/4. */
static inline double caravan_sin_kernel_f64(double r, double low) {
  double z = r * r, w = z * z;
  double p = (0.0083333333333223698 + z * -0.00019841269829770682) +
             w * ((2.7557313678388838e-06 + z * -2.5050755908040563e-08) + w * 1.5896663036165908e-10);
  double v = z * r;
  return r - ((z * (0.5 * low - v * p) - low) - v * -0.16666666666666632);
}
static inline double caravan_cos_kernel_f64(double r, double low) {
  double z = r * r, w = z * z;
  double p = z * ((0.041666666666666595 + z * -0.0013888888888872975) +
                  w * ((2.4801587288800238e-05 + z * -2.7557314164036033e-07) +
                       w * (2.0875698716255767e-09 + z * -1.135842388673633e-11)));
  double h = 0.5 * z, y = 1.0 - h;
  return y + (((1.0 - y) - h) + (z * p - r * low));
}
/* x = n pi/2 + *r + *low; returns n in its low bits. pi/2 is in five parts, the first four of 23 bits. */
static inline uint64_t caravan_reduce_f64(double x, double* r, double* low) {
  double t = x * 0x1.45f306dc9c883p-1 + CARAVAN_ROUND_F64, n = t - CARAVAN_ROUND_F64;
  double a = (x - n * 0x1.921fb4p0) - n * 0x1.4442dp-24;
  double b = n * 0x1.846988p-48, c = a - b, lost = (a - c) - b;
  double d = n * 0x1.8cc514p-72, e = c - d;
  lost = (lost + ((c - e) - d)) - n * 0x1.80dc1cd129025p-95;
  double y = e + lost;
  *low = fabs(y) > 0.7860 ? 0.0 : (e - y) + lost;
  y = y < -0.7860 ? -0.7860 : y;
  *r = y > 0.7860 ? 0.7860 : y;
  return caravan_bits_f64(t);
}
static inline double caravan_sin_f64(double x) {
  double r, low;
  uint64_t q = caravan_reduce_f64(fabs(x), &r, &low);
  double sine = caravan_sin_kernel_f64(r, low), cosine = caravan_cos_kernel_f64(r, low);
  double y = q & 1u ? cosine : sine;
  return caravan_of_bits_f64(caravan_bits_f64(y) ^ ((q & 2u) << 62 ^ (caravan_bits_f64(x) & 1ull << 63)));
}
static inline double caravan_cos_f64(double x) {
  double r, low;
  uint64_t q = caravan_reduce_f64(x, &r, &low) + 1;
  double sine = caravan_sin_kernel_f64(r, low), cosine = caravan_cos_kernel_f64(r, low);
  double y = q & 1u ? cosine : sine;
  return caravan_of_bits_f64(caravan_bits_f64(y) ^ (q & 2u) << 62);
}
static inline double caravan_tan_f64(double x) {
  double r, low;
  uint64_t q = caravan_reduce_f64(fabs(x), &r, &low);
  double sine = caravan_sin_kernel_f64(r, low), cosine = caravan_cos_kernel_f64(r, low);
  double above = q & 1u ? cosine : sine, below = q & 1u ? sine : cosine;
  double y = above / below;
  return caravan_of_bits_f64(caravan_bits_f64(y) ^ (q << 63 ^ (caravan_bits_f64(x) & 1ull << 63)));
}

/* ---- tanh, erf ---- */

/* T = tanh(r) by a polynomial, where near 0 r = |x| and T is the result; else e^2|x| = 2^n e^2r, e^2r = (1+T)/(1-T),
   and the result is 1 - 2/(e^2|x| + 1). n is masked, not chosen, and the end not clamped before, lest gcc
   follow a constant through and compute everything twice. */
static inline float caravan_tanh_f32(float x) {
  float a = fabsf(x), t = a * 0x1.715476p1f + CARAVAN_ROUND_F32;
  float n = caravan_of_bits_f32(caravan_bits_f32(t - CARAVAN_ROUND_F32) & (0u - (uint32_t)(a >= 0.55f)));
  float r = (a - n * 0x1.62e4p-2f) - n * 7.14303383e-07f, z = r * r;
  float p = -0.333329469f + z * (0.133207262f + z * (-0.052671805f + z * 0.0164375175f));
  float near = r + r * z * p, less = 1.0f - near;
  float more = caravan_of_bits_f32(caravan_bits_f32(1.0f + near) + (caravan_bits_f32(t) << 23));
  float far = 1.0f - (less + less) / (more + less);
  far = a > 9.1f ? 1.0f : far;
  return copysignf(a >= 0.55f ? far : near, x);
}
static inline double caravan_tanh_f64(double x) {
  double a = fabs(x), t = a * 0x1.71547652b82fep1 + CARAVAN_ROUND_F64;
  double n = caravan_of_bits_f64(caravan_bits_f64(t - CARAVAN_ROUND_F64) & (0u - (uint64_t)(a >= 0.55)));
  double r = (a - n * 0x1.62e42fefa3p-2) - n * 0x1.3de6af278ece6p-43, z = r * r, w = z * z;
  double even = -1.9494545719798117e-05;
  even = even * w + -0.00023338142981439017;
  even = even * w + -0.0014555428358239964;
  even = even * w + -0.008863232601344263;
  even = even * w + -0.053968253963760551;
  even = even * w + -0.33333333333333298;
  double odd = 8.331623434289562e-05;
  odd = odd * w + 0.00058844443882138042;
  odd = odd * w + 0.0035920920291650968;
  odd = odd * w + 0.021869488385851794;
  odd = odd * w + 0.13333333333326622;
  double near = r + r * z * (even + z * odd), less = 1.0 - near;
  double more = caravan_of_bits_f64(caravan_bits_f64(1.0 + near) + (caravan_bits_f64(t) << 52));
  double far = 1.0 - (less + less) / (more + less);
  far = a > 20.0 ? 1.0 : far;
  return copysign(a >= 0.55 ? far : near, x);
}

static inline double caravan_exp_inner_f64(double x) {
  double t = x * 0x1.71547652b82fep0 + CARAVAN_ROUND_F64, n = t - CARAVAN_ROUND_F64;
  double r = (x - n * 0x1.62e42fefa3p-1) - n * 0x1.3de6af278ece6p-42;
  double y = 1.0 + (r + r * r * caravan_expm1_kernel_f64(r));
  return caravan_of_bits_f64(caravan_bits_f64(y) + (caravan_bits_f64(t) << 52));
}
static inline float caravan_erf_f32(float x) {
  float a = fabsf(x);
  a = a > 4.0f ? 4.0f : a;
  float z = a * a;
  float w = z * z;
  float near = (0.112817124f + z * -0.0267624911f) + w * (0.00498681935f + z * -0.000595739402f);
  near = (0.128379151f + z * -0.376124859f) + w * near;
  float far = (0.105244324f + a * -0.0228783637f) + z * (0.00321123051f + a * -0.000213521125f);
  far = (0.128510699f + a * 0.635731161f) + z * far; /* -log(1 - erf(a)) is a + a far */
  near = a + a * near;
  far = 1.0f - caravan_exp_inner_f32(-(a + a * far));
  return copysignf(a >= 0.92f ? far : near, x);
}
static inline double caravan_erf_f64(double x) {
  double a = fabs(x);
  a = a > 6.0 ? 6.0 : a;
  double z = a * a, w = z * z;
  double even = 1.395420221632976e-08;
  even = even * w + 1.6453336576421754e-06;
  even = even * w + 0.0001205531571577725;
  even = even * w + 0.0052239776191368992;
  even = even * w + 0.11283791670952489;
  even = even * w + 0.12837916709551259;
  double odd = -8.273826141853959e-10;
  odd = odd * w + -1.6257992811016859e-07;
  odd = odd * w + -1.4925174822950374e-05;
  odd = odd * w + -0.0008548326609488843;
  odd = odd * w + -0.026866170644563883;
  odd = odd * w + -0.37612638903183704;
  double near = a + a * (even + z * odd);
  double b = a - 1.0, v = b * b; /* -log(1 - erf) about 1 */
  even = -1.2867969663950673e-12;
  even = even * v + -4.3061510920220393e-10;
  even = even * v + -1.6599194367695174e-08;
  even = even * v + -1.0856748418270434e-07;
  even = even * v + 2.0385277131605158e-06;
  even = even * v + 2.7146767617562071e-05;
  even = even * v + -0.00023732442236055828;
  even = even * v + -0.010033825436284045;
  even = even * v + 0.84310725635848616;
  odd = 3.4666801726034883e-11;
  odd = odd * v + 3.2612686014354022e-09;
  odd = odd * v + 5.7095355496690942e-08;
  odd = odd * v + -1.2513135502126201e-07;
  odd = odd * v + -9.5900189050882218e-06;
  odd = odd * v + -2.6272039382080742e-05;
  odd = odd * v + 0.0019779030035429711;
  odd = odd * v + 0.041561098046815528;
  odd = odd * v + 2.6389675142347904;
  double far = 1.0 - caravan_exp_inner_f64(-(1.8496055099332482 + (b * odd + v * even)));
  return copysign(a >= 0.92 ? far : near, x);
}

/* ---- atan2, pow ---- */

static inline float caravan_atan2_f32(float y, float x) {
  double ay = fabs((double)y), ax = fabs((double)x);
  double big = ay > ax ? ay : ax, small = ay > ax ? ax : ay;
  double equal = big == 0.0 ? 0.0 : 1.0;
  double t = small == big ? equal : small / big;
  double z = t * t, w = z * z;
  double even = ((-0.0073179200779619636 * w + -0.044689753790841419) * w + -0.088110810988499141) * w;
  double odd = ((0.0011137843669737112 * w + 0.02253975237868187) * w + 0.067415792174738545) * w;
  even = (even + -0.14279832398603928) * w + -0.33333326898049831;
  odd = (odd + 0.11058220196016387) * w + 0.19999671065547414;
  double p = t + t * z * (even + z * odd);
  p = ay > ax ? 0x1.921fb54442d18p0 - p : p;
  p = copysign(1.0, (double)x) < 0.0 ? 0x1.921fb54442d18p1 - p : p;
  return (float)copysign(p, (double)y);
}
/* atan of small/big, or of (small-big)/(small+big) about pi/4; then C pi/4 plus or minus that. */
static inline double caravan_atan2_f64(double y, double x) {
  double ay = fabs(y), ax = fabs(x);
  double big = ay > ax ? ay : ax, small = ay > ax ? ax : ay;
  double scale = big > 0x1p1000 ? 0.5 : 1.0;
  scale = big < 0x1p-900 ? 0x1p100 : scale;
  big = big * scale, small = small * scale;
  double limit = big == 0.0 ? 1.0 : big * 0.41421356237309503; /* 0/0 counts as 0 */
  double difference = small == big ? 0.0 : small - big, total = big == 0.0 ? 1.0 : big;
  double above = small >= limit ? difference : small, below = small >= limit ? small + big : total;
  double t = above / below;
  double z = t * t, w = z * z;
  double even = -0.017903693847913967;
  even = even * w + -0.050391448020150276;
  even = even * w + -0.066630978959286324;
  even = even * w + -0.090908977191749549;
  even = even * w + -0.1428571428016259;
  even = even * w + -0.33333333333333198;
  double odd = 0.03806094570442202;
  odd = odd * w + 0.05847849454292342;
  odd = odd * w + 0.076920596059337279;
  odd = odd * w + 0.11111110781950016;
  odd = odd * w + 0.19999999999953211;
  double p = t + t * z * (even + z * odd);
  double eighths = small >= limit ? 1.0 : 0.0;
  double c = ay > ax ? 2.0 - eighths : eighths;
  p = ay > ax ? -p : p;
  double negative = copysign(1.0, x);
  c = negative < 0.0 ? 4.0 - c : c;
  p = negative < 0.0 ? -p : p;
  return copysign(c * 0x1.921fb54442d18p-1 + (p + c * 0x1.1a62633145c07p-55), y);
}

/* What C99 asks of pow beside |x|^y, given for 0 < |x| < inf. */
static inline double caravan_pow_ends(double x, double y, double power) {
  double a = fabs(x), half = 0.5 * y;
  double at_zero = y < 0.0 ? CARAVAN_INF_F64 : 0.0, at_inf = y < 0.0 ? 0.0 : CARAVAN_INF_F64;
  power = a == 0.0 ? at_zero : power;
  power = a == CARAVAN_INF_F64 ? at_inf : power;
  power = a == 1.0 ? 1.0 : power;
  double whole = rint(y), sign = rint(half) == half ? 1.0 : copysign(1.0, x); /* the sign if y is an integer */
  sign = whole == y ? sign : 1.0;
  double outside = x < 0.0 ? CARAVAN_NAN_F64 : power;
  outside = a == CARAVAN_INF_F64 ? power : outside;
  power = whole == y ? power * sign : outside;
  power = x != x ? x : power;
  power = y != y ? y : power;
  power = x == 1.0 ? 1.0 : power;
  return y == 0.0 ? 1.0 : power;
}
static inline float caravan_pow_f32(float x, float y) {
  double dx = x, dy = y;
  uint64_t u = caravan_bits_f64(fabs(dx)) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  double f = caravan_of_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
  double s = f / (2.0 + f), z = s * s, w = z * z;
  double p = (0.66666666675802133 + z * 0.39999995621284934) +
             w * ((0.28572109224499181 + z * 0.22176185726903283) + w * 0.19584196235659035);
  double e = dy * (caravan_exponent_f64(u) + (s + s + s * z * p) * 0x1.71547652b82fep0);
  e = e < -200.0 ? -200.0 : e;
  e = e > 200.0 ? 200.0 : e;
  double t = e + CARAVAN_ROUND_F64, r = (e - (t - CARAVAN_ROUND_F64)) * 0x1.62e42fefa39efp-1, v = r * r;
  double q = (0.5000000000430519 + r * 0.16666666785312784) +
             v * ((0.041666664391823427 + r * 0.0083332815525118988) +
                  v * ((0.0013889198001759318 + r * 0.00019909107236458127) + v * 2.4708388364450409e-05));
  double power = caravan_of_bits_f64(caravan_bits_f64(1.0 + (r + v * q)) + (caravan_bits_f64(t) << 52));
  return (float)caravan_pow_ends(dx, dy, power);
}

/* a * b = product + what is returned (Dekker). */
static inline double caravan_product_rest(double a, double b, double product) {
  double a1 = a * 134217729.0, b1 = b * 134217729.0;
  a1 = a1 - (a1 - a), b1 = b1 - (b1 - b);
  double a2 = a - a1, b2 = b - b1;
  return (((a1 * b1 - product) + a1 * b2) + a2 * b1) + a2 * b2;
}
/* log2|x| = 2 log2(e) atanh(s) + k and its product with y are in two doubles; atanh(s) = s + s z (1/3 + z P(z)). */
static inline double caravan_pow_f64(double x, double y) {
  double a = fabs(x);
  int tiny = a < 0x1p-1022;
  double scaled = tiny ? a * 0x1p54 : a;
  uint64_t u = caravan_bits_f64(scaled) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  double k = caravan_exponent_f64(u);
  k = tiny ? k - 54.0 : k;
  double f = caravan_of_bits_f64((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
  double d = 2.0 + f, d2 = f - (d - 2.0);
  double s = f / d, m = s * d;
  double s2 = (((f - m) - caravan_product_rest(s, d, m)) - s * d2) / d;
  double z = s * s, z2 = caravan_product_rest(s, s, z) + 2.0 * s * s2, w = z * z;
  double p = (0.076922784353941245 + z * 0.066681587188984301) + w * (0.058374089816431649 + z * 0.059945093524113979);
  p = (0.11111111108768271 + z * 0.090909094351561637) + w * p;
  p = (0.1999999999999999 + z * 0.14285714285722556) + w * p;
  double q = z * p, c = 0x1.5555555555555p-2 + q, c2 = ((0x1.5555555555555p-2 - c) + q) + 0x1.5555555555555p-56;
  double g = z * c, g2 = caravan_product_rest(z, c, g) + (z * c2 + z2 * c);
  double v = s * g, v2 = caravan_product_rest(s, g, v) + (s * g2 + s2 * g);
  double h = s + v, h2 = ((s - h) + v) + (s2 + v2);
  double b = h * 0x1.71547652b82fep1;
  double b2 = caravan_product_rest(h, 0x1.71547652b82fep1, b) + (h * 0x1.777d0ffda0d24p-55 + h2 * 0x1.71547652b82fep1);
  double l = k + b, l2 = ((k - l) + b) + b2;
  double n = y > 0x1p70 ? 0x1p70 : y; /* beyond, the result is 0, 1 or infinite */
  n = n < -0x1p70 ? -0x1p70 : n;
  double e = n * l, e2 = caravan_product_rest(n, l, e) + n * l2;
  double clear = fabs(e) < 1100.0 ? 1.0 : 0.0;
  e = e < -1100.0 ? -1100.0 : e;
  e = e > 1100.0 ? 1100.0 : e;
  double t = e + CARAVAN_ROUND_F64, r = ((e - (t - CARAVAN_ROUND_F64)) + e2 * clear) * 0x1.62e42fefa39efp-1;
  double power = caravan_scale_f64(1.0 + (r + r * r * caravan_expm1_kernel_f64(r)), t);
  return caravan_pow_ends(x, y, power);
}
