#pragma once

/* A product of matrices in tiles: sum[m, n] of left(at, m, k) * right(at, k, n) over k < terms, added in order of k by
   fused multiply-adds, and after(at, m, n, sum) for every m < rows, n < columns, at < batch. A thread has a square of
   sums. While it adds a panel of `depth` terms, which lies in shared memory, it loads the next. With several slices, each
   takes every so many panels, and their sums are added at the end, the first slice first. Neighbouring threads load
   neighbouring terms where `left_along` (`right_along`) says so, else neighbouring rows (columns). With `tf32`, factors
   are rounded to 10 bits of fraction, and warps multiply them by tensor cores, which add in an order of their own. */
static inline float caravan_tf32(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}
static inline void caravan_mma(float (&sum)[4], const float (&a)[4], const float (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
        "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#endif
}
template <class T, int tile_rows, int tile_columns, int depth, int own_rows, int own_columns, int slices, bool tf32,
          bool left_along, bool right_along, class Left, class Right, class After>
static inline void caravan_product(int block, int blocks, int batch, int rows, int columns, int terms, Left left,
                                   Right right, After after) {
  constexpr int across = tile_columns / own_columns, threads = tile_rows / own_rows * across;
  constexpr int left_loads = tile_rows * depth / threads, right_loads = tile_columns * depth / threads;
  constexpr int gap = (tf32 ? 32 : 16) / sizeof(T); /* so that threads of a warp reach different banks */
  struct Panels {
    T left[slices][depth][tile_rows + gap], right[slices][depth][tile_columns + gap];
  };
  constexpr int parts_bytes = slices > 1 ? tile_rows * tile_columns * sizeof(T) : 0;
  void* shared = caravan_shared<(sizeof(Panels) > parts_bytes ? sizeof(Panels) : parts_bytes)>();
  auto& left_panel = ((Panels*)shared)->left;
  auto& right_panel = ((Panels*)shared)->right;
  const int slice = threadIdx.x / threads, thread = threadIdx.x % threads;
  if (slice >= slices) return;
  auto wait = [] { asm volatile("bar.sync 1, %0;" ::"n"(threads * slices) : "memory"); };
  /* The tile of a warp, in parts of 16 x 8 elements, and where the sums of this thread lie in it. */
  constexpr int warp_rows = tile_rows == 128 ? 64 : 16, warp_columns = 32, parts_down = warp_rows / 16;
  const int warp = thread / 32, lane = thread % 32, quad = lane / 4, in_quad = lane % 4;
  const int warp_row = warp % (tile_rows / warp_rows) * warp_rows, warp_column = warp / (tile_rows / warp_rows) * warp_columns;
  const int first_row = thread / across * own_rows, first_column = thread % across * own_columns;
  auto row_of = [&](int e) {
    return tf32 ? warp_row + e / 16 * 16 + quad + e % 4 / 2 * 8 : first_row + e / own_columns;
  };
  auto column_of = [&](int e) {
    return tf32 ? warp_column + e / 4 % 4 * 8 + in_quad * 2 + e % 2 : first_column + e % own_columns;
  };
  const int row_tiles = (rows + tile_rows - 1) / tile_rows, column_tiles = (columns + tile_columns - 1) / tile_columns;
  const int panels = (terms + depth - 1) / depth, rounds = (panels + slices - 1) / slices;
  for (int tile = block; tile < batch * row_tiles * column_tiles; tile += blocks) {
    const int at = tile / (row_tiles * column_tiles), row = tile / column_tiles % row_tiles * tile_rows,
              column = tile % column_tiles * tile_columns;
    T sum[own_rows * own_columns] = {}, next_left[left_loads], next_right[right_loads];
    auto load = [&](int round) {
      const int term = (round * slices + slice) * depth;
#pragma unroll
      for (int n = 0; n < left_loads; ++n) {
        const int e = thread + n * threads, m = row + (left_along ? e / depth : e % tile_rows),
                  k = term + (left_along ? e % depth : e / tile_rows);
        next_left[n] = m < rows && k < terms ? left(at, m, k) : T(0);
      }
#pragma unroll
      for (int n = 0; n < right_loads; ++n) {
        const int e = thread + n * threads, m = column + (right_along ? e / depth : e % tile_columns),
                  k = term + (right_along ? e % depth : e / tile_columns);
        next_right[n] = m < columns && k < terms ? right(at, k, m) : T(0);
      }
    };
    load(0);
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
      for (int n = 0; n < left_loads; ++n) {
        const int e = thread + n * threads;
        left_panel[slice][left_along ? e % depth : e / tile_rows][left_along ? e / depth : e % tile_rows] =
            tf32 ? T(caravan_tf32(next_left[n])) : next_left[n];
      }
#pragma unroll
      for (int n = 0; n < right_loads; ++n) {
        const int e = thread + n * threads;
        right_panel[slice][right_along ? e % depth : e / tile_columns][right_along ? e / depth : e % tile_columns] =
            tf32 ? T(caravan_tf32(next_right[n])) : next_right[n];
      }
      wait();
      if (round + 1 < rounds) load(round + 1);
      if constexpr (tf32) {
#pragma unroll
        for (int k = 0; k < depth; k += 8) {
          float y[4][2];
#pragma unroll
          for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) y[j][h] = right_panel[slice][k + in_quad + 4 * h][warp_column + 8 * j + quad];
#pragma unroll
          for (int i = 0; i < parts_down; ++i) {
            float x[4];
#pragma unroll
            for (int h = 0; h < 4; ++h)
              x[h] = left_panel[slice][k + in_quad + h / 2 * 4][warp_row + 16 * i + quad + h % 2 * 8];
#pragma unroll
            for (int j = 0; j < 4; ++j) caravan_mma(*(float(*)[4])&sum[16 * i + 4 * j], x, y[j]);
          }
        }
      } else
#pragma unroll
      for (int k = 0; k < depth; ++k) {
        T x[own_rows], y[own_columns];
#pragma unroll
        for (int i = 0; i < own_rows; ++i) x[i] = left_panel[slice][k][first_row + i];
#pragma unroll
        for (int j = 0; j < own_columns; ++j) y[j] = right_panel[slice][k][first_column + j];
#pragma unroll
        for (int i = 0; i < own_rows; ++i)
#pragma unroll
          for (int j = 0; j < own_columns; ++j)
            sum[i * own_columns + j] = fma(x[i], y[j], sum[i * own_columns + j]);
      }
      wait();
    }
    if (slices > 1) {
      T* parts = (T*)shared; /* the panels are no longer needed */
      for (int other = 1; other < slices; ++other) {
#pragma unroll
        for (int e = 0; e < own_rows * own_columns; ++e)
          if (slice == other) parts[e * threads + thread] = sum[e];
        wait();
#pragma unroll
        for (int e = 0; e < own_rows * own_columns; ++e)
          if (slice == 0) sum[e] += parts[e * threads + thread];
        wait();
      }
      if (slice > 0) continue; /* the last wait is behind all slices */
    }
#pragma unroll
    for (int e = 0; e < own_rows * own_columns; ++e)
      if (row + row_of(e) < rows && column + column_of(e) < columns)
        after(at, row + row_of(e), column + column_of(e), sum[e]);
  }
}
