#pragma once

/* A product of matrices in tiles: sum[m, n] of left(at, m, k) * right(at, k, n) over k < terms, and then
   after(at, m, n, sum, bring(at, m, n)), for every m < rows, n < columns, at < batch. A block of threads takes a tile. Panels of `depth`
   terms of both factors lie in shared memory: while one is multiplied, the next ones are on their way.

   Panels are filled in one of two ways. With `left_copy` = 16, 8 or 4, `left` returns the address of so many bytes of
   neighbouring elements, and they are copied while the threads go on; its last argument says whether they are in range,
   and it may say that they are not: then they are zeros. With 0, `left` returns one element, which is computed. Neighbours are those along the terms if `left_along`, else along the rows (columns).

   In a small tile of plain multiplications, groups of threads share the terms of a panel, and their sums are added in
   shared memory, those of the first group first: so more threads wait for memory and for each other's results.

   Several blocks, which form a cluster, share the terms of a tile if there are `slices`. Their sums are added at the end,
   those of the first slice first. So the order of every sum is fixed by the sizes. */
enum caravan_units {
  caravan_plain, /* fused multiply-adds, in the order of the terms */
  caravan_tf32,  /* tensor cores; factors are rounded to 10 bits of fraction */
  caravan_bf16,  /* tensor cores; factors have 16 bits, and sums 32 */
  caravan_f16,
};
template <class T, caravan_units units>
struct caravan_element {
  typedef T type;
};
template <class T>
struct caravan_element<T, caravan_bf16> {
  typedef uint16_t type;
};
template <class T>
struct caravan_element<T, caravan_f16> {
  typedef uint16_t type;
};

static inline unsigned caravan_shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

/* Copies `bytes` to shared memory while the thread goes on, or zeros if `there` is false. The address must be one of
   global memory in either case. */
template <int bytes>
static inline void caravan_copy(void* to, const void* from, bool there) {
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(caravan_shared_address(to)), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(caravan_shared_address(to)), "l"(from),
                 "n"(bytes), "r"(there ? bytes : 0)
                 : "memory");
}

template <caravan_units units>
static inline void caravan_mma(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#define CARAVAN_MMA(shape)                                                                                         \
  asm("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                           \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (units == caravan_tf32) CARAVAN_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  if constexpr (units == caravan_bf16) CARAVAN_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  if constexpr (units == caravan_f16) CARAVAN_MMA("m16n8k16.row.col.f32.f16.f16.f32");
#undef CARAVAN_MMA
}
static inline unsigned caravan_round_tf32(unsigned x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__uint_as_float(x)));
  return bits;
}
/* Four squares of 8 rows of 16 bytes; each lane gives the address of a row of one of them. */
template <bool transposed>
static inline void caravan_load_squares(unsigned (&to)[4], const void* row) {
  if (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(caravan_shared_address(row)));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(caravan_shared_address(row)));
}

/* Waits for all blocks of the cluster; and an element of the shared memory of another one. */
static inline void caravan_wait_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}
static inline int caravan_rank_in_cluster() {
  int out = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(out));
#endif
  return out;
}
template <class T>
static inline T caravan_of_block(const T* element, int rank) {
  T out = 0;
#if __CUDA_ARCH__ >= 900
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(caravan_shared_address(element)), "r"(rank));
  if constexpr (sizeof(T) == 8)
    asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(out) : "r"(address) : "memory");
  else
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(out) : "r"(address) : "memory");
#endif
  return out;
}

/* One factor of a product: a panel of it is `length` rows (or columns) of `depth` terms. */
template <class E, caravan_units units, int length, int depth, bool along, int copy, int threads>
struct caravan_factor {
  static constexpr int pad = along ? 16 / sizeof(E) : 8; /* so that threads of a warp reach different banks */
  static constexpr int stride = (along ? depth : length) + pad;
  static constexpr int elements = (along ? length : depth) * stride;
  static constexpr int chunk = copy ? copy / sizeof(E) : 1; /* elements that are copied together */
  static constexpr int across = (along ? depth : length) / chunk, chunks = length * depth / chunk;
  static constexpr int turns = (chunks + threads - 1) / threads;
  E waiting[copy ? 1 : turns]; /* computed for the next panel */

  static int place(int m, int k) { return along ? m * stride + k : k * stride + m; }
  template <class Do>
  static void for_each_chunk(int thread, Do todo) {
#pragma unroll
    for (int n = 0; n < turns; ++n) {
      const int c = thread + n * threads, major = c / across, minor = c % across * chunk;
      if (chunks % threads == 0 || c < chunks) todo(n, along ? major : minor, along ? minor : major);
    }
  }
  template <class T>
  static E narrow(T x) {
    E out = E(x);
    if constexpr (units == caravan_bf16) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(x));
    if constexpr (units == caravan_f16) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(x));
    return out;
  }
  /* Four terms from `k` on of `own` rows. `near` of them lie side by side if terms do not. */
  template <int own, int near, class Row>
  static void take(const E* panel, int k, Row row, E (&to)[own][4]) {
    struct __align__(16) Terms {
      E at[4];
    };
    struct __align__(near * sizeof(E) < 16 ? near * sizeof(E) : 16) Rows {
      E at[near];
    };
    if constexpr (along) {
#pragma unroll
      for (int i = 0; i < own; ++i) {
        const Terms terms = *(const Terms*)&panel[place(row(i), k)];
#pragma unroll
        for (int q = 0; q < 4; ++q) to[i][q] = terms.at[q];
      }
    } else {
#pragma unroll
      for (int q = 0; q < 4; ++q)
#pragma unroll
        for (int i = 0; i < own; i += near) {
          const Rows rows = *(const Rows*)&panel[place(row(i), k + q)];
#pragma unroll
          for (int r = 0; r < near; ++r) to[i + r][q] = rows.at[r];
        }
    }
  }
};

template <class T, caravan_units units, int tile_rows, int tile_columns, int depth, int stages, int all_slices,
          bool left_along, int left_copy, bool right_along, int right_copy, class Left, class Right, class Bring, class After>
static inline void caravan_product(int block, int blocks, int batch, int rows, int columns, int terms, Left left,
                                   Right right, Bring bring, After after) {
#ifdef CARAVAN_ONE_BLOCK
  constexpr int slices = 1;
#else
  constexpr int slices = all_slices;
#endif
  typedef typename caravan_element<T, units>::type E;
  constexpr bool plain = units == caravan_plain;
  constexpr int groups = plain && tile_rows == 32 ? 32 / sizeof(T) : 1;
  constexpr int warp_rows = tile_rows == 128 ? 64 : plain ? 32 : tile_rows / 2,
                warp_columns = tile_columns == 128 || plain ? 32 : tile_columns / 2,
                warps_across = tile_columns / warp_columns, group_threads = 32 * (tile_rows / warp_rows) * warps_across,
                threads = groups * group_threads, own = warp_rows * warp_columns / 32;
  typedef caravan_factor<E, units, tile_rows, depth, left_along, left_copy, threads> LeftPanel;
  typedef caravan_factor<E, units, tile_columns, depth, right_along, right_copy, threads> RightPanel;
  const int thread = threadIdx.x, slice = block % slices;
  const int first_rank = slices > 1 ? caravan_rank_in_cluster() - slice : 0; /* a cluster may have several tiles */
  if (thread >= threads) return;
  E* const panels = (E*)caravan_shared();
  T* const tile_sums = (T*)caravan_shared(); /* when the panels are no longer needed */
  constexpr int panel_elements = LeftPanel::elements + RightPanel::elements, sums_across = tile_columns + 8;
  auto wait = [] { asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory"); };

  /* Which sums of the tile belong to this thread: tensor cores give each thread of a warp some elements of parts of
     16 x 8; else a warp is 4 x 8 threads, with neighbouring elements if those are neighbours in the panel. */
  const int group = thread / group_threads, warp = thread % group_threads / 32, lane = thread % 32, quad = lane / 4,
            in_quad = lane % 4;
  const int warp_row = warp / warps_across * warp_rows, warp_column = warp % warps_across * warp_columns;
  constexpr int own_rows = warp_rows / 4, own_columns = warp_columns / 8;
  constexpr int near_rows = left_along ? 1 : own_rows < 4 ? own_rows : 4,
                near_columns = right_along ? 1 : own_columns < 4 ? own_columns : 4;
  constexpr int parts_down = warp_rows / 16, parts_across = warp_columns / 8;
  auto own_row = [&](int i) {
    return warp_row + i / near_rows * (4 * near_rows) + lane / 8 * near_rows + i % near_rows;
  };
  auto own_column = [&](int j) {
    return warp_column + j / near_columns * (8 * near_columns) + lane % 8 * near_columns + j % near_columns;
  };
  auto row_of = [&](int e) {
    return units == caravan_plain ? own_row(e / own_columns)
                                  : warp_row + e / (4 * parts_across) * 16 + quad + e % 4 / 2 * 8;
  };
  auto column_of = [&](int e) {
    return units == caravan_plain ? own_column(e % own_columns)
                                  : warp_column + e / 4 % parts_across * 8 + in_quad * 2 + e % 2;
  };

  const int row_tiles = (rows + tile_rows - 1) / tile_rows, column_tiles = (columns + tile_columns - 1) / tile_columns;
  const int all_panels = (terms + depth - 1) / depth, first = all_panels * slice / slices,
            count = all_panels * (slice + 1) / slices - first;
  for (int tile = block / slices; tile < batch * row_tiles * column_tiles; tile += blocks / slices) {
    const int at = tile / (row_tiles * column_tiles), row = tile / column_tiles % row_tiles * tile_rows,
              column = tile % column_tiles * tile_columns;
    T sum[own] = {};
    LeftPanel left_panel;
    RightPanel right_panel;
    auto left_of = [&](int panel) { return panels + panel % stages * panel_elements; };
    auto right_of = [&](int panel) { return panels + panel % stages * panel_elements + LeftPanel::elements; };
    auto copy = [&](int panel) {
      const int term = (first + panel) * depth;
      if constexpr (left_copy > 0)
        LeftPanel::for_each_chunk(thread, [&](int, int m, int k) {
          bool there = row + m < rows && term + k < terms;
          const void* from = left(at, row + m, term + k, there);
          caravan_copy<left_copy>(left_of(panel) + LeftPanel::place(m, k), from, there);
        });
      if constexpr (right_copy > 0)
        RightPanel::for_each_chunk(thread, [&](int, int n, int k) {
          bool there = column + n < columns && term + k < terms;
          const void* from = right(at, term + k, column + n, there);
          caravan_copy<right_copy>(right_of(panel) + RightPanel::place(n, k), from, there);
        });
    };
    auto compute = [&](int panel) {
      const int term = (first + panel) * depth;
      if constexpr (left_copy == 0)
        LeftPanel::for_each_chunk(thread, [&](int c, int m, int k) {
          const bool there = row + m < rows && term + k < terms;
          left_panel.waiting[c] = LeftPanel::narrow(there ? left(at, row + m, term + k) : T(0));
        });
      if constexpr (right_copy == 0)
        RightPanel::for_each_chunk(thread, [&](int c, int n, int k) {
          const bool there = column + n < columns && term + k < terms;
          right_panel.waiting[c] = RightPanel::narrow(there ? right(at, term + k, column + n) : T(0));
        });
    };
    auto store = [&](int panel) {
      if constexpr (left_copy == 0)
        LeftPanel::for_each_chunk(
            thread, [&](int c, int m, int k) { left_of(panel)[LeftPanel::place(m, k)] = left_panel.waiting[c]; });
      if constexpr (right_copy == 0)
        RightPanel::for_each_chunk(
            thread, [&](int c, int n, int k) { right_of(panel)[RightPanel::place(n, k)] = right_panel.waiting[c]; });
    };
    auto multiply = [&](const E* x_panel, const E* y_panel) {
      if constexpr (units == caravan_plain) {
        constexpr int share = depth / groups; /* terms of a group */
#pragma unroll
        for (int k = group * share, end = k + share; k < end; k += 4) {
          T x[own_rows][4], y[own_columns][4];
          LeftPanel::template take<own_rows, near_rows>(x_panel, k, own_row, x);
          RightPanel::template take<own_columns, near_columns>(y_panel, k, own_column, y);
#pragma unroll
          for (int q = 0; q < 4; ++q)
#pragma unroll
            for (int i = 0; i < own_rows; ++i)
#pragma unroll
              for (int j = 0; j < own_columns; ++j)
                sum[i * own_columns + j] = fma(x[i][q], y[j][q], sum[i * own_columns + j]);
        }
      } else {
        constexpr int step = units == caravan_tf32 ? 8 : 16; /* terms of one instruction */
        const int square = lane / 8, in_square = lane % 8;
#pragma unroll
        for (int k = 0; k < depth; k += step) {
          unsigned y[parts_across][2];
          if constexpr (right_along || sizeof(E) == 2) {
#pragma unroll
            for (int j = 0; j < parts_across; j += 2) {
              const int n = warp_column + 8 * j + square / 2 * 8, at_k = k + square % 2 * (step / 2);
              unsigned both[4];
              caravan_load_squares<!right_along>(both, y_panel + (right_along ? RightPanel::place(n + in_square, at_k)
                                                                              : RightPanel::place(n, at_k + in_square)));
              y[j][0] = both[0], y[j][1] = both[1], y[j + 1][0] = both[2], y[j + 1][1] = both[3];
            }
          } else {
#pragma unroll
            for (int j = 0; j < parts_across; ++j)
#pragma unroll
              for (int h = 0; h < 2; ++h)
                y[j][h] = __float_as_uint(y_panel[RightPanel::place(warp_column + 8 * j + quad, k + in_quad + 4 * h)]);
          }
          if constexpr (units == caravan_tf32)
#pragma unroll
            for (int j = 0; j < parts_across; ++j) y[j][0] = caravan_round_tf32(y[j][0]), y[j][1] = caravan_round_tf32(y[j][1]);
#pragma unroll
          for (int i = 0; i < parts_down; ++i) {
            unsigned x[4];
            if constexpr (left_along || sizeof(E) == 2) {
              const int m = warp_row + 16 * i + square % 2 * 8, at_k = k + square / 2 * (step / 2);
              caravan_load_squares<!left_along>(x, x_panel + (left_along ? LeftPanel::place(m + in_square, at_k)
                                                                         : LeftPanel::place(m, at_k + in_square)));
            } else {
#pragma unroll
              for (int h = 0; h < 4; ++h)
                x[h] = __float_as_uint(
                    x_panel[LeftPanel::place(warp_row + 16 * i + quad + h % 2 * 8, k + in_quad + h / 2 * 4)]);
            }
            if constexpr (units == caravan_tf32)
#pragma unroll
              for (int h = 0; h < 4; ++h) x[h] = caravan_round_tf32(x[h]);
#pragma unroll
            for (int j = 0; j < parts_across; ++j)
              caravan_mma<units>(*(float(*)[4])&sum[(i * parts_across + j) * 4], x, y[j]);
          }
        }
      }
    };

#pragma unroll(stages > 3 ? 1 : 2)
    for (int panel = 0; panel < stages - 1; ++panel) {
      if (panel < count) copy(panel);
      asm volatile("cp.async.commit_group;" ::: "memory");
    }
    compute(0), store(0);
    for (int panel = 0; panel < count; ++panel) {
      asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
      wait();
      if (panel + stages - 1 < count) copy(panel + stages - 1);
      asm volatile("cp.async.commit_group;" ::: "memory");
      if (panel + 1 < count) compute(panel + 1);
      multiply(left_of(panel), right_of(panel));
      if (panel + 1 < count) store(panel + 1);
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    wait();

    /* Sums go through shared memory, so that neighbouring threads work on neighbouring columns. What is loaded for some
       sums is on its way before the first of them is used. */
    constexpr int group_sums = tile_rows * sums_across, all = tile_rows * tile_columns, step = slices * threads,
                  most = tile_rows == 128 ? 4 : 8, each = (all + step - 1) / step, at_once = each < most ? each : most;
    decltype(bring(0, 0, 0)) brought[at_once];
    auto there = [&](int e) { return e < all && row + e / tile_columns < rows && column + e % tile_columns < columns; };
    auto bring_all = [&](int from) {
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const int e = from + u * step;
        if (there(e)) brought[u] = bring(at, row + e / tile_columns, column + e % tile_columns);
      }
    };
    const int own_first = slice * threads + thread;
    bring_all(own_first);
#pragma unroll
    for (int e = 0; e < own; ++e)
      tile_sums[group * group_sums + row_of(e) * sums_across + column_of(e)] = sum[e];
    if (groups > 1 && slices > 1) {
      wait();
#pragma unroll 4
      for (int e = thread; e < all; e += threads) {
        T* const own_sum = &tile_sums[e / tile_columns * sums_across + e % tile_columns];
#pragma unroll
        for (int other = 1; other < groups; ++other) *own_sum += own_sum[other * group_sums];
      }
    }
    if (slices > 1)
      caravan_wait_cluster();
    else
      wait();
    for (int from = own_first; from < all; from += at_once * step) {
      if (from != own_first) bring_all(from);
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const int e = from + u * step, m = e / tile_columns, n = e % tile_columns;
        if (!there(e)) continue;
        const T* own_sum = &tile_sums[m * sums_across + n];
        T total = slices > 1 ? caravan_of_block(own_sum, first_rank) : *own_sum;
#pragma unroll
        for (int other = 1; other < (slices > 1 ? slices : groups); ++other)
          total += slices > 1 ? caravan_of_block(own_sum, first_rank + other) : own_sum[other * group_sums];
        after(at, row + m, column + n, total, brought[u]);
      }
    }
    if (slices > 1)
      caravan_wait_cluster();
    else
      wait();
  }
}
