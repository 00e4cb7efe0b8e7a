#pragma once

#include "cpu.h"
#include "math.h"

/* Attention of one head, and its gradient (schedule/cpu_attention.h). Every sum has the order that the loops would
   have: those of products are chains of fused multiply-adds, those over the scores of a row have eight partial sums,
   and both are cut into the blocks that `caravan_order` states. What a mask removes has the weight 0, and products with
   it are left out where that changes no bit: where all factors are finite and no sum is 0, whose sign an added 0 may
   change. A sum of blocks begins with 0, so it is never -0, and an added 0 never changes it.

   Scores are computed for `kept` rows at a time, all columns that these see. Their factors are turned before, into
   panels of CARAVAN_P columns: a panel, and a block of the other factor of a product, stay in the nearest cache while
   all of these rows are multiplied by it. */
#define CARAVAN_INLINE static inline __attribute__((always_inline))
#define CARAVAN_ALIGNED __attribute__((aligned(64)))
/* The text before this one defines, as the schedule has chosen: CARAVAN_W, numbers of a vector; CARAVAN_R and
   CARAVAN_C, rows and vectors of columns of a tile. */
#define CARAVAN_PASTED(a, b) a##b
#define CARAVAN_OF(name, width) CARAVAN_PASTED(name, width)
#define caravan_v CARAVAN_OF(caravan_f32x, CARAVAN_W)
#define caravan_vall CARAVAN_OF(caravan_all_f32x, CARAVAN_W)
#define caravan_vfma CARAVAN_OF(caravan_fma_f32x, CARAVAN_W)
#define CARAVAN_UP(n) (((n) + CARAVAN_W - 1) / CARAVAN_W * CARAVAN_W)
#define CARAVAN_UP8(n) (((n) + 7) / 8 * 8)
#define CARAVAN_P (CARAVAN_C * CARAVAN_W)
#define CARAVAN_HIDDEN -1e30f

/* What becomes of the sums of a tile: they are stored, or begin with what is stored, or are added to that. */
#define CARAVAN_SET 0
#define CARAVAN_CONTINUE 1
#define CARAVAN_ADD 2

/* y[r][c] = sum over t of a[r*row + t*term] * b[t*next + c], for R rows and C vectors of columns. */
CARAVAN_INLINE void caravan_tile(int R, int C, const float* a, int64_t row, int64_t term, const float* b, int64_t next,
                                 int64_t terms, float* y, int64_t y_row, int how) {
  caravan_v sum[CARAVAN_R][CARAVAN_C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c)
      sum[r][c] = how == CARAVAN_CONTINUE ? *(const caravan_v*)&y[r * y_row + CARAVAN_W * c] : caravan_vall(0.0f);
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
  if (how == CARAVAN_ADD)
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sum[r][c] = *(const caravan_v*)&y[r * y_row + CARAVAN_W * c] + sum[r][c];
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
                                             int how) {                                                            \
    int64_t n = 0;                                                                                                 \
    for (; n + CARAVAN_P <= columns; n += CARAVAN_P)                                                               \
      caravan_tile(R, CARAVAN_C, a, row, term, b + n, next, terms, y + n, y_row, how);                             \
    if (CARAVAN_C > 2 && n + 2 * CARAVAN_W <= columns) {                                                           \
      caravan_tile(R, 2, a, row, term, b + n, next, terms, y + n, y_row, how);                                     \
      n += 2 * CARAVAN_W;                                                                                          \
    }                                                                                                              \
    if (n < columns) caravan_tile(R, 1, a, row, term, b + n, next, terms, y + n, y_row, how);                      \
  }
CARAVAN_TILES(caravan_many_rows, CARAVAN_R)
CARAVAN_TILES(caravan_one_row, 1)
CARAVAN_INLINE void caravan_tiles(int64_t R, int64_t columns, const float* a, int64_t row, int64_t term, const float* b,
                                  int64_t next, int64_t terms, float* y, int64_t y_row, int how) {
  if (R == 1)
    caravan_one_row(columns, a, row, term, b, next, terms, y, y_row, how);
  else
    caravan_many_rows(columns, a, row, term, b, next, terms, y, y_row, how);
}
/* The rows of the tile that begins at row r. */
#define CARAVAN_ROWS_AT(r, end) ((r) + CARAVAN_R <= (end) ? CARAVAN_R : 1)

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

/* Panels of CARAVAN_P columns: y[n / P][c][n % P] = x[n][c]. Columns beyond the last one, up to CARAVAN_UP(n), are 0.
 */
CARAVAN_INLINE void caravan_turned(const float* restrict x, int64_t next, int64_t columns, int64_t depth,
                                   float* restrict y) {
  const int64_t up = CARAVAN_UP(columns);
  for (int64_t n = 0; n < up; n += 4) {
    float* restrict to = y + n / CARAVAN_P * CARAVAN_P * depth + n % CARAVAN_P;
    for (int64_t c = 0; c < depth; ++c)
      for (int64_t k = 0; k < 4; ++k) to[c * CARAVAN_P + k] = n + k < columns ? x[(n + k) * next + c] : 0.0f;
  }
}

/* The order of a sum: blocks of so many terms, and slices of so many, which consist of blocks; 0: none. */
typedef struct caravan_order {
  int64_t block, slice;
} caravan_order;

/* Of a row whose length is a multiple of 8: the largest, NaN if one is. */
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
/* The sum of `some` numbers of a row, after which zeros follow. Of `columns` numbers, those of whole vectors of 8 are
   added in blocks, and the rest after them. */
CARAVAN_INLINE float caravan_row_sum(const float* x, int64_t some, int64_t columns, caravan_order order) {
  const int64_t whole = some < columns / 8 * 8 ? CARAVAN_UP8(some) : columns / 8 * 8;
  caravan_f32x8 lanes = {0.0f};
  if (!order.block)
    for (int64_t k = 0; k < whole; k += 8) lanes += *(const caravan_f32x8*)&x[k];
  else
    for (int64_t k = 0, end; k < whole; k = end) {
      end = k + order.block < whole ? k + order.block : whole;
      caravan_f32x8 block = {0.0f};
      for (int64_t j = k; j < end; j += 8) block += *(const caravan_f32x8*)&x[j];
      lanes += block;
    }
  if (some > whole) lanes += *(const caravan_f32x8*)&x[whole];
  float sum = 0.0f;
#pragma GCC unroll 8
  for (int l = 0; l < 8; ++l) sum += lanes[l];
  return sum;
}

/* How scores are scaled: divided, or multiplied where the divisor is 0. */
CARAVAN_INLINE void caravan_scale(float* x, int64_t n, float divisor, float factor) {
  for (int64_t k = 0; k < n; ++k) x[k] = divisor != 0.0f ? x[k] / divisor : x[k] * factor;
}
CARAVAN_INLINE void caravan_fill(float* x, int64_t from, int64_t to, float value) {
  for (int64_t k = from; k < to; ++k) x[k] = value;
}
CARAVAN_INLINE void caravan_add_rows(const float* x, int64_t rows, int64_t depth, float* y, int64_t y_row) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < depth; ++c) y[r * y_row + c] += x[r * depth + c];
}
CARAVAN_INLINE void caravan_zero_rows(float* y, int64_t y_row, int64_t rows, int64_t depth) {
  for (int64_t r = 0; r < rows; ++r) caravan_fill(y + r * y_row, 0, depth, 0.0f);
}

typedef struct caravan_head {
  int64_t rows, columns, depth; /* of a head: queries, keys, and the length of both */
  float divisor, factor;
  int causal;
  int64_t q_row, k_row, v_row, y_row, dy_row, dq_row, dk_row, dv_row; /* distances in memory */
  int64_t kept;                          /* most rows whose scores are computed at a time */
  caravan_order over_scores;             /* of these sums */
  caravan_order over_rows, over_columns; /* of products */
} caravan_head;
/* The distance of rows of scores: a cache line more than a multiple of two, so that they have different places in a
   cache. */
#define CARAVAN_ROW(columns) (((columns) + 15) / 16 * 16 | 16)
/* The length of turned columns. */
#define CARAVAN_PANELS(h) (((h).columns + CARAVAN_P - 1) / CARAVAN_P * CARAVAN_P * (h).depth)

/* How many columns the rows of a tile see, which ends before row `end`. */
CARAVAN_INLINE int64_t caravan_seen(caravan_head h, int64_t end, int all) {
  return all || end > h.columns ? h.columns : end;
}

/* s[r][n] = x[m + r] . columns[n], of `rows` rows and all columns that they see. */
CARAVAN_INLINE void caravan_scores(caravan_head h, int64_t m, int64_t rows, int all, const float* x, int64_t x_row,
                                   const float* turned, float* s) {
  const int64_t up = CARAVAN_ROW(h.columns), most = caravan_seen(h, m + rows, all);
  for (int64_t n = 0; n < most; n += CARAVAN_P)
    for (int64_t r = 0, R; r < rows; r += R) {
      R = CARAVAN_ROWS_AT(r, rows);
      const int64_t left = caravan_seen(h, m + r + R, all) - n;
      if (left > 0)
        caravan_tiles(R, left < CARAVAN_P ? CARAVAN_UP(left) : CARAVAN_P, x + (m + r) * x_row, x_row, 1,
                      turned + n * h.depth, CARAVAN_P, h.depth, s + r * up + n, up, CARAVAN_SET);
    }
}
/* y[r] = sum over n of s[r][n] * x[n], of `rows` rows. Those of the tile that begins at row r have terms[r] terms,
   which are followed by zeros up to those of the longest tile. */
CARAVAN_INLINE void caravan_over_columns(caravan_head h, int64_t rows, const int64_t* terms, float* s, const float* x,
                                         int64_t x_row, float* y, int64_t y_row, float* slice) {
  const int64_t up = CARAVAN_ROW(h.columns);
  const caravan_order order = h.over_columns;
  if (!order.block) {
    for (int64_t r = 0, R; r < rows; r += R) {
      R = CARAVAN_ROWS_AT(r, rows);
      float *tile = s + r * up, *to = y + r * y_row;
      caravan_tiles(R, h.depth, tile, up, 1, x, x_row, terms[r], to, y_row, CARAVAN_SET);
      if (terms[r] == h.columns || !caravan_has_zero(to, y_row, (int)R, h.depth)) continue;
      for (int64_t k = 0; k < R; ++k) caravan_fill(tile + k * up, terms[r], h.columns, 0.0f);
      caravan_tiles(R, h.depth, tile, up, 1, x, x_row, h.columns, to, y_row, CARAVAN_SET);
    }
    return;
  }
  caravan_zero_rows(y, y_row, rows, h.depth);
  const int64_t length = order.slice ? order.slice : h.columns;
  for (int64_t from = 0; from < h.columns; from += length) {
    float* to = order.slice ? slice : y;
    const int64_t to_row = order.slice ? h.depth : y_row, end = from + length;
    if (order.slice) caravan_zero_rows(slice, h.depth, rows, h.depth);
    for (int64_t n = from; n < end; n += order.block)
      for (int64_t r = 0, R; r < rows; r += R) {
        R = CARAVAN_ROWS_AT(r, rows);
        int64_t count = (end < terms[r] ? end : terms[r]) - n;
        if (count > order.block) count = order.block;
        if (count > 0)
          caravan_tiles(R, h.depth, s + r * up + n, up, 1, x + n * x_row, x_row, count, to + r * to_row, to_row,
                        CARAVAN_ADD);
      }
    if (order.slice) caravan_add_rows(slice, rows, h.depth, y, y_row);
  }
}

/* Makes weights of the scores of `rows` rows from row m on. `all`: nothing is left out. */
CARAVAN_INLINE void caravan_softmax(caravan_head h, int64_t m, int64_t rows, int all, float* s, float* most, float* sum,
                                    int64_t* terms) {
  const int64_t up = CARAVAN_ROW(h.columns);
  int64_t kept[CARAVAN_R];
  for (int64_t r = 0, R; r < rows; r += R) {
    R = CARAVAN_ROWS_AT(r, rows);
    terms[r] = caravan_seen(h, m + r + R, all);
    for (int64_t k = 0; k < R; ++k) {
      const int64_t at = m + r + k, seen = h.causal && at + 1 < h.columns ? at + 1 : h.columns;
      float* row = s + (r + k) * up;
      int64_t some = all || CARAVAN_UP8(seen) > h.columns ? h.columns : CARAVAN_UP8(seen);
      caravan_scale(row, seen, h.divisor, h.factor);
      caravan_fill(row, seen, some, CARAVAN_HIDDEN);
      caravan_fill(row, some, CARAVAN_UP8(some), -INFINITY);
      float largest = caravan_row_max(row, CARAVAN_UP8(some));
      if (!(largest > -1e29f)) {
        caravan_fill(row, some, h.columns, CARAVAN_HIDDEN);
        caravan_fill(row, h.columns, CARAVAN_UP8(h.columns), -INFINITY);
        terms[r] = some = h.columns, largest = caravan_row_max(row, CARAVAN_UP8(some));
      }
      for (int64_t n = 0; n < some; ++n) row[n] = caravan_exp_f32(row[n] - largest);
      caravan_fill(row, some, CARAVAN_UP8(some), 0.0f);
      const float total = caravan_row_sum(row, some, h.columns, h.over_scores);
      for (int64_t n = 0; n < some; ++n) row[n] = row[n] / total;
      kept[k] = some, most[at] = largest, sum[at] = total;
    }
    for (int64_t k = 0; k < R; ++k) caravan_fill(s + (r + k) * up, kept[k], terms[r], 0.0f);
  }
}
/* `room` is memory for: turned keys, scores of `kept` rows, and slices of their sums. */
CARAVAN_INLINE void caravan_attention(caravan_head h, float* room, const float* q, const float* k, const float* v,
                                      float* y, float* most, float* sum) {
  float *turned = room, *s = turned + CARAVAN_PANELS(h), *slice = s + h.kept * CARAVAN_ROW(h.columns);
  int64_t terms[h.kept];
  caravan_turned(k, h.k_row, h.columns, h.depth, turned);
  const int all = !h.causal || !caravan_all_finite(v, h.v_row, h.columns, h.depth);
  for (int64_t m = 0, rows; m < h.rows; m += rows) {
    rows = m + h.kept < h.rows ? h.kept : h.rows - m;
    caravan_scores(h, m, rows, all, q, h.q_row, turned, s);
    caravan_softmax(h, m, rows, all, s, most, sum, terms);
    caravan_over_columns(h, rows, terms, s, v, h.v_row, y + m * h.y_row, h.y_row, slice);
  }
}

/* Of `rows` rows from row m on: makes weights of the scores, and the gradient by the scores of the gradient by the
   weights `ds`. Both are 0 from what is left out up to column `high`. */
CARAVAN_INLINE void caravan_softmax_back(caravan_head h, int64_t m, int64_t rows, int64_t high, int all,
                                         const float* most, const float* sum, float* weights, float* ds,
                                         float* restrict part) {
  const int64_t up = CARAVAN_ROW(h.columns);
  for (int64_t r = 0; r < rows; ++r) {
    float* restrict weight = weights + r * up, * restrict d = ds + r * up;
    const float largest = most[m + r], total = sum[m + r];
    const int64_t seen = h.causal && m + r + 1 < h.columns ? m + r + 1 : h.columns;
    const int64_t some = all || CARAVAN_UP8(seen) > h.columns ? h.columns : CARAVAN_UP8(seen);
    caravan_scale(weight, seen, h.divisor, h.factor);
    caravan_fill(weight, seen, some, CARAVAN_HIDDEN);
    if (!all) caravan_fill(d, seen, some, 0.0f); /* times the weight 0 */
    for (int64_t n = 0; n < some; ++n) {
      const float power = caravan_exp_f32(weight[n] - largest);
      weight[n] = power;
      part[n] = -d[n] * (power / total) / total;
    }
    caravan_fill(part, some, CARAVAN_UP8(some), 0.0f);
    const float dot = caravan_row_sum(part, some, h.columns, h.over_scores);
    for (int64_t n = 0; n < some; ++n) d[n] = (d[n] / total + dot) * weight[n];
    for (int64_t n = 0; n < some; ++n) weight[n] = weight[n] / total;
    caravan_scale(d, seen, h.divisor, h.factor);
    caravan_fill(d, seen, high, 0.0f);
    caravan_fill(weight, some, high, 0.0f);
  }
}
/* The gradients by the keys or values before number `high`, of `rows` rows from row m on: each of them adds
   factor[row][n] * x[row]. */
CARAVAN_INLINE void caravan_over_rows(caravan_head h, int64_t m, int64_t rows, int64_t high, int all,
                                      const float* factor, const float* x, int64_t x_row, float* dx, int64_t dx_row) {
  const int64_t up = CARAVAN_ROW(h.columns), end = m + rows;
  for (int64_t n = 0, R; n < high; n += R) {
    R = CARAVAN_ROWS_AT(n, high);
    const int64_t from = !all && n > m ? n : m;
    caravan_tiles(R, h.depth, factor + (from - m) * up + n, 1, up, x + from * x_row, x_row, end - from, dx + n * dx_row,
                  dx_row, CARAVAN_CONTINUE);
  }
}
/* Gradients by keys or values, which are added up over blocks and slices of rows: where the sum of a block is, and of a
   slice, and of all. */
typedef struct caravan_sums {
  float *block, *slice, *all;
  int64_t row; /* of all; the others are without gaps */
} caravan_sums;
CARAVAN_INLINE void caravan_begin_block(caravan_head h, int64_t m, caravan_sums sums) {
  if (h.over_rows.slice && m % h.over_rows.slice == 0) caravan_fill(sums.slice, 0, h.columns * h.depth, 0.0f);
  caravan_fill(sums.block, 0, h.columns * h.depth, 0.0f);
}
CARAVAN_INLINE void caravan_end_block(caravan_head h, int64_t end, int64_t high, caravan_sums sums) {
  const int sliced = h.over_rows.slice != 0;
  caravan_add_rows(sums.block, high, h.depth, sliced ? sums.slice : sums.all, sliced ? h.depth : sums.row);
  if (sliced && end % h.over_rows.slice == 0) caravan_add_rows(sums.slice, h.columns, h.depth, sums.all, sums.row);
}
/* `room` is memory for: turned keys and values, weights and gradients by scores of `kept` rows, a row of numbers,
   slices of sums over columns, and the sums of blocks and of slices of rows. */
CARAVAN_INLINE void caravan_attention_back(caravan_head h, float* room, const float* q, const float* k, const float* v,
                                           const float* dy, const float* most, const float* sum, float* dq, float* dk,
                                           float* dv) {
  const int64_t up = CARAVAN_ROW(h.columns), all_columns = h.columns * h.depth;
  float *k_turned = room, *v_turned = k_turned + CARAVAN_PANELS(h), *weights = v_turned + CARAVAN_PANELS(h),
        *ds = weights + h.kept * up, *part = ds + h.kept * up, *slice = part + up;
  float* blocks = slice + (h.over_columns.slice ? h.kept * h.depth : 0);
  float* slices = blocks + 2 * all_columns;
  const caravan_sums k_sums = {blocks, slices, dk, h.dk_row},
                     v_sums = {blocks + all_columns, slices + all_columns, dv, h.dv_row};
  int64_t terms[h.kept];
  caravan_turned(k, h.k_row, h.columns, h.depth, k_turned);
  caravan_turned(v, h.v_row, h.columns, h.depth, v_turned);
  int all = !h.causal || !caravan_all_finite(q, h.q_row, h.rows, h.depth) ||
            !caravan_all_finite(k, h.k_row, h.columns, h.depth) ||
            !caravan_all_finite(v, h.v_row, h.columns, h.depth) || !caravan_all_finite(dy, h.dy_row, h.rows, h.depth);
  for (int64_t m = 0; m < h.rows; ++m) all |= !(most[m] > -1e29f);
  caravan_zero_rows(dk, h.dk_row, h.columns, h.depth);
  caravan_zero_rows(dv, h.dv_row, h.columns, h.depth);
  const int64_t block = h.over_rows.block ? h.over_rows.block : h.rows;
  for (int64_t begin = 0; begin < h.rows; begin += block) {
    const int64_t end = begin + block < h.rows ? begin + block : h.rows;
    if (h.over_rows.block) caravan_begin_block(h, begin, k_sums), caravan_begin_block(h, begin, v_sums);
    for (int64_t m = begin, rows; m < end; m += rows) {
      rows = m + h.kept < end ? h.kept : end - m;
      const int64_t high = caravan_seen(h, m + rows, all);
      caravan_scores(h, m, rows, all, q, h.q_row, k_turned, weights);
      caravan_scores(h, m, rows, all, dy, h.dy_row, v_turned, ds);
      caravan_softmax_back(h, m, rows, high, all, most, sum, weights, ds, part);
      for (int64_t r = 0; r < rows; r += CARAVAN_ROWS_AT(r, rows))
        terms[r] = caravan_seen(h, m + r + CARAVAN_ROWS_AT(r, rows), all);
      caravan_over_columns(h, rows, terms, ds, k, h.k_row, dq + m * h.dq_row, h.dq_row, slice);
      caravan_over_rows(h, m, rows, high, all, weights, dy, h.dy_row, h.over_rows.block ? v_sums.block : dv,
                        h.over_rows.block ? h.depth : h.dv_row);
      caravan_over_rows(h, m, rows, high, all, ds, q, h.q_row, h.over_rows.block ? k_sums.block : dk,
                        h.over_rows.block ? h.depth : h.dk_row);
    }
    if (h.over_rows.block) {
      const int64_t high = caravan_seen(h, end, all);
      caravan_end_block(h, end, high, k_sums), caravan_end_block(h, end, high, v_sums);
    }
  }
}
