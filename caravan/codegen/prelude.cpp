#include "caravan/codegen/prelude.h"

namespace caravan::codegen {

namespace {

const char* const kTypes = R"C(#include <math.h>
#include <stdint.h>
#include <string.h>

/* Neighbours in memory, computed with at once. */
typedef float caravan_f32x2 __attribute__((vector_size(8), aligned(4), may_alias));
typedef float caravan_f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float caravan_f32x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double caravan_f64x2 __attribute__((vector_size(16), aligned(8), may_alias));
typedef double caravan_f64x4 __attribute__((vector_size(32), aligned(8), may_alias));

/* What a run is given. A parallel loop's chunks go to the pool, or are run in place where there is none. */
typedef struct caravan_step {
  void* const* buffers;
  const int64_t* symbols;
  uint64_t seed;
  void (*parallel)(void* pool, void (*chunk)(const struct caravan_step*, int64_t), const struct caravan_step* step, int64_t chunks);
  void* pool;
} caravan_step;
static inline void caravan_parallel(const caravan_step* step, void (*chunk)(const caravan_step*, int64_t), int64_t chunks) {
  if (step->parallel) step->parallel(step->pool, chunk, step, chunks);
  else for (int64_t c = 0; c < chunks; ++c) chunk(step, c);
}
)C";

}  // namespace

const Helper kHelpers[10] = {
    {"caravan_keep_loop", R"C(
/* Keeps the next loop from being unrolled: GCC before 14 may sum wrongly what it unrolls (its bug 110381). */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8 && __GNUC__ < 14
#define caravan_keep_loop() _Pragma("GCC unroll 1")
#else
#define caravan_keep_loop()
#endif
)C"},
    {"caravan_to_u8", R"C(
/* A float to an integer: towards zero, NaN gives 0, out of range saturates. */
static inline uint8_t caravan_to_u8(double x) { return x != x || x <= 0 ? 0 : x >= 255 ? 255 : (uint8_t)x; }
)C"},
    {"caravan_to_i32", R"C(
/* A float to an integer: towards zero, NaN gives 0, out of range saturates. */
static inline int32_t caravan_to_i32(double x) { return x != x ? 0 : x <= -2147483648.0 ? INT32_MIN : x >= 2147483647.0 ? INT32_MAX : (int32_t)x; }
)C"},
    {"caravan_to_i64", R"C(
/* A float to an integer: towards zero, NaN gives 0, out of range saturates. */
static inline int64_t caravan_to_i64(double x) { return x != x ? 0 : x <= -0x1p63 ? INT64_MIN : x >= 0x1p63 ? INT64_MAX : (int64_t)x; }
)C"},
    {"caravan_odd", R"C(
/* To float, rounded to odd: rounding the result to a narrow float is then one rounding, from double. */
static inline float caravan_odd(double x) {
  float f = (float)x;
  uint32_t u; memcpy(&u, &f, 4);
  if (x != x || (double)f == x) return f;
  if (fabs((double)f) > fabs(x)) --u;
  u |= 1;
  memcpy(&f, &u, 4); return f;
}
)C"},
    {"caravan_from_bf16", R"C(
/* A narrow float, of which these are the bits. */
static inline float caravan_from_bf16(uint16_t h) { uint32_t u = (uint32_t)h << 16; float f; memcpy(&f, &u, 4); return f; }
)C"},
    {"caravan_to_bf16", R"C(
/* The bits of a narrow float, rounded to nearest even. */
static inline uint16_t caravan_to_bf16(float f) {
  uint32_t u; memcpy(&u, &f, 4);
  if (f != f) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
)C"},
    {"caravan_from_f16", R"C(
/* A narrow float, of which these are the bits. */
static inline float caravan_from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023, u;
  if (exponent == 0) { float f = (float)fraction * 0x1p-24f; return sign ? -f : f; }
  u = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
  float f; memcpy(&f, &u, 4); return f;
}
)C"},
    {"caravan_to_f16", R"C(
/* The bits of a narrow float, rounded to nearest even. */
static inline uint16_t caravan_to_f16(float f) {
  uint32_t u; memcpy(&u, &f, 4);
  uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
  float a = fabsf(f);
  if (f != f) return (uint16_t)(sign | 0x7e00);
  if (a >= 65520.0f) return (uint16_t)(sign | 0x7c00);
  if (a < 0x1p-14f) return (uint16_t)(sign | (uint16_t)rintf(a * 0x1p24f));
  u &= 0x7fffffff;
  u += 0xfff + (u >> 13 & 1);
  return (uint16_t)(sign | ((u - (112u << 23)) >> 13));
}
)C"},
    {"caravan_random", R"C(
/* Threefry-4x32, 20 rounds: word `lane` of element `element` of the stream (seed, name, step). */
static inline uint32_t caravan_random(uint64_t seed, uint64_t name, uint64_t step, uint64_t element, int lane) {
  static const int rotation[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
  uint32_t k[5] = {(uint32_t)seed, (uint32_t)(seed >> 32), (uint32_t)name, (uint32_t)(name >> 32), 0};
  uint32_t x[4] = {(uint32_t)element, (uint32_t)(element >> 32), (uint32_t)step, (uint32_t)(step >> 32)};
  k[4] = 0x1BD11BDA ^ k[0] ^ k[1] ^ k[2] ^ k[3];
  for (int i = 0; i < 4; ++i) x[i] += k[i];
  for (int round = 0; round < 20; ++round) {
    int first = round % 2 ? 3 : 1, second = round % 2 ? 1 : 3, a = rotation[round % 8][0], b = rotation[round % 8][1];
    x[0] += x[first], x[first] = (x[first] << a | x[first] >> (32 - a)) ^ x[0];
    x[2] += x[second], x[second] = (x[second] << b | x[second] >> (32 - b)) ^ x[2];
    if (round % 4 == 3) {
      int turn = round / 4 + 1;
      for (int i = 0; i < 4; ++i) x[i] += k[(turn + i) % 5];
      x[3] += (uint32_t)turn;
    }
  }
  return x[lane];
}
)C"}};

std::string prelude() {
  std::string out = kTypes;
  for (const Helper& helper : kHelpers) out += helper.text;
  return out;
}

}  // namespace caravan::codegen
