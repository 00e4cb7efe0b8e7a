#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A float to an integer: towards zero, NaN gives 0, out of range saturates. */
static inline uint8_t caravan_to_u8(double x) { return x != x || x <= 0 ? 0 : x >= 255 ? 255 : (uint8_t)x; }

/* A float to an integer: towards zero, NaN gives 0, out of range saturates. */
static inline int32_t caravan_to_i32(double x) {
  return x != x ? 0 : x <= -2147483648.0 ? INT32_MIN : x >= 2147483647.0 ? INT32_MAX : (int32_t)x;
}

/* A float to an integer: towards zero, NaN gives 0, out of range saturates. */
static inline int64_t caravan_to_i64(double x) {
  return x != x ? 0 : x <= -0x1p63 ? INT64_MIN : x >= 0x1p63 ? INT64_MAX : (int64_t)x;
}

/* To float, rounded to odd: rounding the result to a narrow float is then one rounding, from double. */
static inline float caravan_odd(double x) {
  float f = (float)x;
  uint32_t u;
  memcpy(&u, &f, 4);
  if (x != x || (double)f == x) return f;
  if (fabs((double)f) > fabs(x)) --u;
  u |= 1;
  memcpy(&f, &u, 4);
  return f;
}

/* A narrow float, of which these are the bits. */
static inline float caravan_from_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

/* The bits of a narrow float, rounded to nearest even. */
static inline uint16_t caravan_to_bf16(float f) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  uint32_t u;
  memcpy(&u, &f, 4);
  if (f != f) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}

/* A narrow float, of which these are the bits. */
static inline float caravan_from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023, u;
  if (exponent == 0) {
    float f = (float)fraction * 0x1p-24f;
    return sign ? -f : f;
  }
  u = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

/* The bits of a narrow float, rounded to nearest even. */
static inline uint16_t caravan_to_f16(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
  float a = fabsf(f);
  if (f != f) return (uint16_t)(sign | 0x7e00);
  if (a >= 65520.0f) return (uint16_t)(sign | 0x7c00);
  if (a < 0x1p-14f) return (uint16_t)(sign | (uint16_t)rintf(a * 0x1p24f));
  u &= 0x7fffffff;
  u += 0xfff + (u >> 13 & 1);
  return (uint16_t)(sign | ((u - (112u << 23)) >> 13));
}
