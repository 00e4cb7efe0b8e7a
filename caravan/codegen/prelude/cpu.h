#pragma once

#include <stdint.h>

/* Neighbours in memory, computed with at once. */
typedef float caravan_f32x2 __attribute__((vector_size(8), aligned(4), may_alias));
typedef float caravan_f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float caravan_f32x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float caravan_f32x16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double caravan_f64x2 __attribute__((vector_size(16), aligned(8), may_alias));
typedef double caravan_f64x4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double caravan_f64x8 __attribute__((vector_size(64), aligned(8), may_alias));

/* A vector with the same number everywhere; a * b + c, rounded once. GCC and Clang have the same name for the
   instruction of an x86 processor. */
#ifdef __FMA__
static inline caravan_f32x4 caravan_all_f32x4(float x) { return (caravan_f32x4){x, x, x, x}; }
static inline caravan_f32x4 caravan_fma_f32x4(caravan_f32x4 a, caravan_f32x4 b, caravan_f32x4 c) {
  return __builtin_ia32_vfmaddps(a, b, c);
}
static inline caravan_f32x8 caravan_all_f32x8(float x) { return (caravan_f32x8){x, x, x, x, x, x, x, x}; }
static inline caravan_f32x8 caravan_fma_f32x8(caravan_f32x8 a, caravan_f32x8 b, caravan_f32x8 c) {
  return __builtin_ia32_vfmaddps256(a, b, c);
}
static inline caravan_f64x2 caravan_all_f64x2(double x) { return (caravan_f64x2){x, x}; }
static inline caravan_f64x2 caravan_fma_f64x2(caravan_f64x2 a, caravan_f64x2 b, caravan_f64x2 c) {
  return __builtin_ia32_vfmaddpd(a, b, c);
}
static inline caravan_f64x4 caravan_all_f64x4(double x) { return (caravan_f64x4){x, x, x, x}; }
static inline caravan_f64x4 caravan_fma_f64x4(caravan_f64x4 a, caravan_f64x4 b, caravan_f64x4 c) {
  return __builtin_ia32_vfmaddpd256(a, b, c);
}
#elif !defined(__x86_64__)
static inline caravan_f32x4 caravan_all_f32x4(float x) { return (caravan_f32x4){x, x, x, x}; }
static inline caravan_f32x4 caravan_fma_f32x4(caravan_f32x4 a, caravan_f32x4 b, caravan_f32x4 c) {
  for (int i = 0; i < 4; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
static inline caravan_f64x2 caravan_all_f64x2(double x) { return (caravan_f64x2){x, x}; }
static inline caravan_f64x2 caravan_fma_f64x2(caravan_f64x2 a, caravan_f64x2 b, caravan_f64x2 c) {
  for (int i = 0; i < 2; ++i) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
}
#endif

/* An empty instruction that may change the register: what is in it is then no longer known to be in memory. (A volatile
   load does the same, but the product of 1024 x 1024 x 1024 took 5 % longer with it.) */
#if defined(__x86_64__)
#define CARAVAN_IN_REGISTER(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define CARAVAN_IN_REGISTER(v) __asm__("" : "+w"(v))
#else
#define CARAVAN_IN_REGISTER(v) (void)0
#endif

/* A buffer begins at a cache line. Without AVX, an instruction that computes takes an operand from memory only if the
   compiler knows that it is aligned. The product of 1024 x 1024 x 1024 takes 8 % longer without it; with AVX it changes
   no instruction. */
#if defined(__SSE2__) && !defined(__AVX__)
#define CARAVAN_ON_LINE(buffer) ((buffer) = __builtin_assume_aligned(buffer, 64))
#else
#define CARAVAN_ON_LINE(buffer) (void)0
#endif

/* Asks for what lies behind an address, for the nearest cache or for the second-level one. */
static inline void caravan_prefetch_nearest(const void* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char*)from + at, 0, 3);
}
static inline void caravan_prefetch(const void* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char*)from + at, 0, 2);
}

/* The low or the high halves of two vectors, element by element in turn. */
static inline caravan_f32x4 caravan_low_f32x4(caravan_f32x4 a, caravan_f32x4 b) {
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}
static inline caravan_f32x4 caravan_high_f32x4(caravan_f32x4 a, caravan_f32x4 b) {
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}
static inline caravan_f64x2 caravan_low_f64x2(caravan_f64x2 a, caravan_f64x2 b) {
  return __builtin_shufflevector(a, b, 0, 2);
}
static inline caravan_f64x2 caravan_high_f64x2(caravan_f64x2 a, caravan_f64x2 b) {
  return __builtin_shufflevector(a, b, 1, 3);
}
#ifdef __AVX__
static inline caravan_f32x8 caravan_low_f32x8(caravan_f32x8 a, caravan_f32x8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
static inline caravan_f32x8 caravan_high_f32x8(caravan_f32x8 a, caravan_f32x8 b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
static inline caravan_f64x4 caravan_low_f64x4(caravan_f64x4 a, caravan_f64x4 b) {
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}
static inline caravan_f64x4 caravan_high_f64x4(caravan_f64x4 a, caravan_f64x4 b) {
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}
#endif
#ifdef __AVX512F__
static inline caravan_f32x16 caravan_low_f32x16(caravan_f32x16 a, caravan_f32x16 b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
static inline caravan_f32x16 caravan_high_f32x16(caravan_f32x16 a, caravan_f32x16 b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
static inline caravan_f64x8 caravan_low_f64x8(caravan_f64x8 a, caravan_f64x8 b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
static inline caravan_f64x8 caravan_high_f64x8(caravan_f64x8 a, caravan_f64x8 b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
static inline caravan_f32x16 caravan_all_f32x16(float x) {
  return (caravan_f32x16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
static inline caravan_f32x16 caravan_fma_f32x16(caravan_f32x16 a, caravan_f32x16 b, caravan_f32x16 c) {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
}
static inline caravan_f64x8 caravan_all_f64x8(double x) { return (caravan_f64x8){x, x, x, x, x, x, x, x}; }
static inline caravan_f64x8 caravan_fma_f64x8(caravan_f64x8 a, caravan_f64x8 b, caravan_f64x8 c) {
  return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4);
}
#endif

/* What a run is given. A parallel loop's chunks go to the pool, or are run in place where there is none. */
typedef struct caravan_step {
  void* const* buffers;
  const int64_t* symbols;
  uint64_t seed;
  void (*parallel)(void* pool, void (*chunk)(const struct caravan_step*, int64_t), const struct caravan_step* step,
                   int64_t chunks);
  void* pool;
} caravan_step;
static __attribute__((noinline, unused)) void caravan_parallel(const caravan_step* step,
                                                               void (*chunk)(const caravan_step*, int64_t),
                                                               int64_t chunks) {
  if (step->parallel)
    step->parallel(step->pool, chunk, step, chunks);
  else
    for (int64_t c = 0; c < chunks; ++c) chunk(step, c);
}
