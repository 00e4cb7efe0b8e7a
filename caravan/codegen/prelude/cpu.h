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

/* What a run is given. A parallel loop's chunks go to the pool, or are run in place where there is none. */
typedef struct caravan_step {
  void* const* buffers;
  const int64_t* symbols;
  uint64_t seed;
  void (*parallel)(void* pool, void (*chunk)(const struct caravan_step*, int64_t), const struct caravan_step* step,
                   int64_t chunks);
  void* pool;
} caravan_step;
static inline void caravan_parallel(const caravan_step* step, void (*chunk)(const caravan_step*, int64_t),
                                    int64_t chunks) {
  if (step->parallel)
    step->parallel(step->pool, chunk, step, chunks);
  else
    for (int64_t c = 0; c < chunks; ++c) chunk(step, c);
}
