#pragma once

/* The two factors of a normal number (Box-Muller), for processors (caravan/base/random.cpp) and for GPUs
   (caravan/backend/cuda/prelude/draw.cuh). Who includes this declares CARAVAN_INLINE, caravan_bits_of and
   caravan_double_of, and contracts no multiplication and addition: so all compute the same bits. There are no branches,
   so that loops become vector code, and no functions of a library, which may round differently. */

/* log(k / 2^24) for k from 1 to 2^24, as fdlibm computes it: k / 2^24 = 2^exponent (1 + f) with 1 + f between sqrt(1/2)
   and sqrt(2), and log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)) with s = f / (2 + f). */
CARAVAN_INLINE double caravan_log_of_share(int32_t k) {
  constexpr double kLog2High = 6.93147180369123816490e-01, kLog2Low = 1.90821492927058770002e-10;
  constexpr double kTwo52 = 4503599627370496.0;
  constexpr uint64_t kFraction = (uint64_t(1) << 52) - 1, kSqrtHalf = 0x3fe6a09e667f3bcd; /* the bits of sqrt(1/2) */
  const uint64_t above = caravan_bits_of(double(k)) - kSqrtHalf; /* its exponent field is that of k / sqrt(1/2) */
  const uint64_t field = above >> 52;                            /* the exponent of 2 */
  const double f = caravan_double_of((above & kFraction) + kSqrtHalf) - 1;
  /* Or-ing the field to the bits of 2^52 makes the number 2^52 + field. */
  const double exponent = caravan_double_of(field | 0x4330000000000000) - kTwo52 - 24;
  const double s = f / (2 + f), z = s * s, w = z * z;
  const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half = 0.5 * f * f;
  return exponent * kLog2High - ((half - (s * (half + (even + odd)) + exponent * kLog2Low)) - f);
}

/* cos(2 pi k / 2^24) for k from 0 to 2^24 - 1, by fdlibm's polynomials for sin and cos in the nearest quarter of a
   turn. */
CARAVAN_INLINE double caravan_cos_of_share(int32_t k) {
  constexpr double kTurn = 2 * 3.14159265358979323846 / 16777216; /* by 2^24, which is exact */
  const int32_t quarter = (k + (1 << 21)) >> 22;
  const double x = double(k - (quarter << 22)) * kTurn, z = x * x;
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
  /* Quarter 0 is cos x, 1 is -sin x, 2 is -cos x, 3 is sin x. */
  const double by_sine = double(quarter & 1), sign = 1 - double((quarter + 1) & 2);
  return sign * (by_sine * sine + (1 - by_sine) * cosine);
}

/* A normal number is the square root of the first times the second, of two random words. */
CARAVAN_INLINE double caravan_squared_radius(uint32_t word) {
  return -2 * caravan_log_of_share(int32_t(word >> 8) + 1);
}
CARAVAN_INLINE double caravan_direction(uint32_t word) { return caravan_cos_of_share(int32_t(word >> 8)); }
