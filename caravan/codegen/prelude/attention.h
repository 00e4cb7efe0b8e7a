#pragma once

#include "cpu.h"
#include "math.h"

/* Attention of one head, and its gradient (schedule/cpu_attention.h). Every sum has the order that the loops would
   have: those of products are chains of fused multiply-adds, those over the scores of a row have eight partial sums.
   What a mask removes has the weight 0, and products with it are left out where that changes no bit: where all factors
   are finite and no sum is 0, whose sign an added 0 may change. */
#define CARAVAN_INLINE static inline __attribute__((always_inline))
#define CARAVAN_ALIGNED __attribute__((aligned(64)))
/* The text before this one defines, as the schedule has chosen: CARAVAN_W, numbers of a vector; CARAVAN_R and
   CARAVAN_C, rows and vectors of columns of a tile; CARAVAN_MB, rows whose weights and gradients are kept at a time, a
   multiple of CARAVAN_R. */
#define CARAVAN_PASTED(a, b) a##b
#define CARAVAN_OF(name, width) CARAVAN_PASTED(name, width)
#define caravan_v CARAVAN_OF(caravan_f32x, CARAVAN_W)
#define caravan_vall CARAVAN_OF(caravan_all_f32x, CARAVAN_W)
#define caravan_vfma CARAVAN_OF(caravan_fma_f32x, CARAVAN_W)
#define CARAVAN_UP(n) (((n) + CARAVAN_W - 1) / CARAVAN_W * CARAVAN_W)
#define CARAVAN_HIDDEN -1e30f

/* y[r][c] = start + sum over t of a[r*row + t*term] * b[t*next + c], for R rows and C vectors of columns. */
CARAVAN_INLINE void caravan_tile(int R, int C, const float* a, int64_t row, int64_t term, const float* b, int64_t next,
                                 int64_t terms, float* y, int64_t y_row, int start) {
  caravan_v sum[CARAVAN_R][CARAVAN_C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c)
      sum[r][c] = start ? *(const caravan_v*)&y[r * y_row + CARAVAN_W * c] : caravan_vall(0.0f);
  for (int64_t t = 0; t < terms; ++t) {
    caravan_v column[CARAVAN_C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) column[c] = *(const caravan_v*)&b[t * next + CARAVAN_W * c];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const caravan_v factor = caravan_vall(a[r * row + t * term]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sum[r][c] = caravan_vfma(column[c], factor, sum[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) *(caravan_v*)&y[r * y_row + CARAVAN_W * c] = sum[r][c];
}

/* The same for any number of columns, a multiple of CARAVAN_W. Two functions of their own, for CARAVAN_R rows and for
   one, so that they are compiled once. */
#define CARAVAN_TILES(NAME, R)                                                                                     \
  static __attribute__((noinline)) void NAME(int64_t columns, const float* a, int64_t row, int64_t term,           \
                                             const float* b, int64_t next, int64_t terms, float* y, int64_t y_row, \
                                             int start) {                                                          \
    int64_t n = 0;                                                                                                 \
    for (; n + CARAVAN_C * CARAVAN_W <= columns; n += CARAVAN_C * CARAVAN_W)                                       \
      caravan_tile(R, CARAVAN_C, a, row, term, b + n, next, terms, y + n, y_row, start);                           \
    if (CARAVAN_C > 2 && n + 2 * CARAVAN_W <= columns) {                                                           \
      caravan_tile(R, 2, a, row, term, b + n, next, terms, y + n, y_row, start);                                   \
      n += 2 * CARAVAN_W;                                                                                          \
    }                                                                                                              \
    if (n < columns) caravan_tile(R, 1, a, row, term, b + n, next, terms, y + n, y_row, start);                    \
  }
CARAVAN_TILES(caravan_many_rows, CARAVAN_R)
CARAVAN_TILES(caravan_one_row, 1)
CARAVAN_INLINE void caravan_tiles(int R, int64_t columns, const float* a, int64_t row, int64_t term, const float* b,
                                  int64_t next, int64_t terms, float* y, int64_t y_row, int start) {
  if (R == 1)
    caravan_one_row(columns, a, row, term, b, next, terms, y, y_row, start);
  else
    caravan_many_rows(columns, a, row, term, b, next, terms, y, y_row, start);
}

CARAVAN_INLINE int caravan_all_finite(const float* x, int64_t next, int64_t rows, int64_t columns) {
  int bad = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) bad |= !(x[r * next + c] - x[r * next + c] == 0.0f);
  return !bad;
}

CARAVAN_INLINE int caravan_has_zero(const float* x, int64_t next, int rows, int64_t columns) {
  int zero = 0;
  for (int r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) zero |= x[r * next + c] == 0.0f;
  return zero;
}

CARAVAN_INLINE void caravan_plus_zero(float* x, int64_t next, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) x[r * next + c] += 0.0f;
}

/* y[c][r] = x[r][c] in columns of CARAVAN_UP(rows), the last of which are 0. */
CARAVAN_INLINE void caravan_turned(const float* restrict x, int64_t next, int64_t rows, int64_t columns,
                                   float* restrict y) {
  const int64_t up = CARAVAN_UP(rows);
  for (int64_t r = 0; r < up; r += 4)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t k = r; k < r + 4; ++k) y[c * up + k] = k < rows ? x[k * next + c] : 0.0f;
}

/* Of a row whose length is a multiple of 8: the largest, NaN if one is; and the sum, as eight partial sums. */
typedef int32_t caravan_i32x8 __attribute__((vector_size(32), aligned(4), may_alias));
CARAVAN_INLINE float caravan_row_max(const float* x, int64_t n) {
  const float least = -INFINITY;
  caravan_f32x8 lanes = {least, least, least, least, least, least, least, least};
  for (int64_t k = 0; k < n; k += 8) {
    const caravan_f32x8 next = *(const caravan_f32x8*)&x[k];
    const caravan_i32x8 stays = (lanes >= next) | (lanes != lanes);
    lanes = (caravan_f32x8)(((caravan_i32x8)lanes & stays) | ((caravan_i32x8)next & ~stays));
  }
  float most = least;
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) most = most >= lanes[l] || most != most ? most : lanes[l];
  return most;
}
CARAVAN_INLINE float caravan_row_sum(const float* x, int64_t n) {
  caravan_f32x8 lanes = {0.0f};
  for (int64_t k = 0; k < n; k += 8) lanes += *(const caravan_f32x8*)&x[k];
  float sum = 0.0f;
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) sum += lanes[l];
  return sum;
}

/* How scores are scaled: divided, or multiplied where the divisor is 0. */
CARAVAN_INLINE void caravan_scale(float* x, int64_t n, float divisor, float factor) {
  for (int64_t k = 0; k < n; ++k) x[k] = divisor != 0.0f ? x[k] / divisor : x[k] * factor;
}

typedef struct caravan_head {
  int64_t rows, columns, depth; /* of a head: queries, keys, and the length of both */
  float divisor, factor;
  int causal;
  int64_t q_row, k_row, v_row, y_row, dy_row, dq_row, dk_row, dv_row; /* distances in memory */
} caravan_head;

/* R rows from row m on. `all`: nothing is left out. */
CARAVAN_INLINE void caravan_attention_rows(int R, caravan_head h, int64_t m, int all, const float* q,
                                           const float* turned, const float* v, float* y, float* most, float* sum) {
  const int64_t up = CARAVAN_UP(h.columns), lim = all || m + R > h.columns ? h.columns : m + R;
  CARAVAN_ALIGNED float s[CARAVAN_R * CARAVAN_UP(h.columns)];
  int64_t kept[CARAVAN_R];
  caravan_tiles(R, CARAVAN_UP(lim), q + m * h.q_row, h.q_row, 1, turned, up, h.depth, s, up, 0);
  int whole = all;
  for (int r = 0; r < R; ++r) {
    float* row = s + r * up;
    const int64_t seen = h.causal && m + r + 1 < h.columns ? m + r + 1 : h.columns;
    int64_t some = all ? h.columns : (seen + 7) / 8 * 8;
    caravan_scale(row, seen, h.divisor, h.factor);
    for (int64_t n = seen; n < some; ++n) row[n] = CARAVAN_HIDDEN;
    float largest = caravan_row_max(row, some);
    if (!(largest > -1e29f)) {
      for (int64_t n = some; n < h.columns; ++n) row[n] = CARAVAN_HIDDEN;
      whole = 1, some = h.columns, largest = caravan_row_max(row, some);
    }
    for (int64_t n = 0; n < some; ++n) row[n] = caravan_exp_f32(row[n] - largest);
    const float total = caravan_row_sum(row, some);
    for (int64_t n = 0; n < some; ++n) row[n] = row[n] / total;
    kept[r] = some, most[m + r] = largest, sum[m + r] = total;
  }
  for (int again = 0; again < 2; ++again) {
    const int64_t terms = whole ? h.columns : lim;
    for (int r = 0; r < R; ++r)
      for (int64_t n = kept[r]; n < terms; ++n) s[r * up + n] = 0.0f;
    caravan_tiles(R, h.depth, s, up, 1, v, h.v_row, terms, y + m * h.y_row, h.y_row, 0);
    if (terms == h.columns || !caravan_has_zero(y + m * h.y_row, h.y_row, R, h.depth)) return;
    whole = 1;
  }
}
CARAVAN_INLINE void caravan_attention(caravan_head h, const float* q, const float* k, const float* v, float* y,
                                      float* most, float* sum) {
  CARAVAN_ALIGNED float turned[h.depth * CARAVAN_UP(h.columns)];
  caravan_turned(k, h.k_row, h.columns, h.depth, turned);
  const int all = !h.causal || !caravan_all_finite(v, h.v_row, h.columns, h.depth);
  for (int64_t m = 0, n; m < h.rows; m += n) {
    n = m + CARAVAN_R <= h.rows ? CARAVAN_R : 1;
    caravan_attention_rows((int)n, h, m, all, q, turned, v, y, most, sum);
  }
}

/* R rows from row m on of the weights and of the gradient by the scores, and of the gradient by the queries. */
CARAVAN_INLINE void caravan_attention_back_rows(int R, caravan_head h, int64_t m, int64_t high, int all, const float* q,
                                                const float* k, const float* k_turned, const float* v_turned,
                                                const float* dy, const float* most, const float* sum, float* weights,
                                                float* ds, float* dq) {
  const int64_t up = CARAVAN_UP(h.columns), lim = all || m + R > h.columns ? h.columns : m + R;
  CARAVAN_ALIGNED float part[CARAVAN_UP(h.columns)];
  caravan_tiles(R, CARAVAN_UP(lim), q + m * h.q_row, h.q_row, 1, k_turned, up, h.depth, weights, up, 0);
  caravan_tiles(R, CARAVAN_UP(lim), dy + m * h.dy_row, h.dy_row, 1, v_turned, up, h.depth, ds, up, 0);
  for (int r = 0; r < R; ++r) {
    float *weight = weights + r * up, *d = ds + r * up;
    const float largest = most[m + r], total = sum[m + r];
    const int64_t seen = h.causal && m + r + 1 < h.columns ? m + r + 1 : h.columns;
    const int64_t some = all ? h.columns : (seen + 7) / 8 * 8;
    caravan_scale(weight, seen, h.divisor, h.factor);
    for (int64_t n = seen; n < some; ++n) weight[n] = CARAVAN_HIDDEN;
    if (!all)
      for (int64_t n = seen; n < some; ++n) d[n] = 0.0f; /* times the weight 0 */
    for (int64_t n = 0; n < some; ++n) {
      const float power = caravan_exp_f32(weight[n] - largest);
      weight[n] = power;
      part[n] = -d[n] * (power / total) / total;
    }
    const float dot = caravan_row_sum(part, some);
    for (int64_t n = 0; n < some; ++n) d[n] = (d[n] / total + dot) * weight[n];
    for (int64_t n = 0; n < some; ++n) weight[n] = weight[n] / total;
    caravan_scale(d, seen, h.divisor, h.factor);
    for (int64_t n = seen; n < high; ++n) d[n] = 0.0f;
    for (int64_t n = some; n < high; ++n) weight[n] = 0.0f;
  }
  caravan_tiles(R, h.depth, ds, up, 1, k, h.k_row, lim, dq + m * h.dq_row, h.dq_row, 0);
  if (lim == h.columns || !caravan_has_zero(dq + m * h.dq_row, h.dq_row, R, h.depth)) return;
  for (int r = 0; r < R; ++r)
    for (int64_t n = high; n < h.columns; ++n) ds[r * up + n] = 0.0f;
  caravan_tiles(R, h.depth, ds, up, 1, k, h.k_row, h.columns, dq + m * h.dq_row, h.dq_row, 0);
}
/* The gradients by R keys or values from number n on, of the rows from m to `end`: each of them adds factor[row][n] *
 * x[row]. */
CARAVAN_INLINE void caravan_attention_back_columns(int R, caravan_head h, int64_t n, int64_t m, int64_t end, int all,
                                                   const float* factor, const float* x, int64_t x_row, float* dx,
                                                   int64_t dx_row) {
  const int64_t up = CARAVAN_UP(h.columns), from = !all && n > m ? n : m;
  caravan_tiles(R, h.depth, factor + (from - m) * up + n, 1, up, x + from * x_row, x_row, end - from, dx + n * dx_row,
                dx_row, 1);
}
CARAVAN_INLINE void caravan_attention_back(caravan_head h, const float* q, const float* k, const float* v,
                                           const float* dy, const float* most, const float* sum, float* dq, float* dk,
                                           float* dv) {
  const int64_t up = CARAVAN_UP(h.columns);
  CARAVAN_ALIGNED float k_turned[h.depth * CARAVAN_UP(h.columns)], v_turned[h.depth * CARAVAN_UP(h.columns)];
  CARAVAN_ALIGNED float weights[CARAVAN_MB * CARAVAN_UP(h.columns)], ds[CARAVAN_MB * CARAVAN_UP(h.columns)];
  caravan_turned(k, h.k_row, h.columns, h.depth, k_turned);
  caravan_turned(v, h.v_row, h.columns, h.depth, v_turned);
  int all = !h.causal || !caravan_all_finite(q, h.q_row, h.rows, h.depth) ||
            !caravan_all_finite(k, h.k_row, h.columns, h.depth) ||
            !caravan_all_finite(v, h.v_row, h.columns, h.depth) || !caravan_all_finite(dy, h.dy_row, h.rows, h.depth);
  for (int64_t m = 0; m < h.rows; ++m) all |= !(most[m] > -1e29f);
  for (int64_t n = 0; n < h.columns; ++n)
    for (int64_t c = 0; c < h.depth; ++c) dk[n * h.dk_row + c] = 0.0f, dv[n * h.dv_row + c] = 0.0f;
  for (int64_t m = 0; m < h.rows; m += CARAVAN_MB) {
    const int64_t end = m + CARAVAN_MB < h.rows ? m + CARAVAN_MB : h.rows,
                  high = all || end > h.columns ? h.columns : end;
    for (int64_t r = m, n; r < end; r += n) {
      n = r + CARAVAN_R <= end ? CARAVAN_R : 1;
      caravan_attention_back_rows((int)n, h, r, high, all, q, k, k_turned, v_turned, dy, most, sum,
                                  weights + (r - m) * up, ds + (r - m) * up, dq);
    }
    for (int64_t c = 0, n; c < high; c += n) {
      n = c + CARAVAN_R <= high ? CARAVAN_R : 1;
      caravan_attention_back_columns((int)n, h, c, m, end, all, weights, dy, h.dy_row, dv, h.dv_row);
      caravan_attention_back_columns((int)n, h, c, m, end, all, ds, q, h.q_row, dk, h.dk_row);
    }
  }
}
