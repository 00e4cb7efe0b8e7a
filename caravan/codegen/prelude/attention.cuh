#pragma once

/* Attention: with p[m, n] = softmax over n of scale * (q[m] . k[n]), out[m] is the sum over n of p[m, n] * v[n]; if it is
   causal, of all n <= m. The weights p are never stored. A warp holds 16 rows of some tensors in registers, and the warps
   of a block go over the rows of two others, which come to shared memory in tiles of `width` rows, the next tile while
   one is used:

     function                    holds           goes over   makes
     caravan_attention           q, at m         k, v        out, and for each m: total = log2 of the sum of 2^score
     caravan_attention_rows      q and d, at m   k, v        the gradient of q, and for each m: dot = scale * (d . out)
     caravan_attention_columns   k and v, at n   q, d        the gradients of k and v

   Here d is the gradient of out, and score = scale * log2(e) * (q . k). While the first function goes over the columns,
   it has the largest score so far, and multiplies its sums by 2^(old - new) when there is a larger one. The others
   compute the weights again: p = 2^(score - total). The gradient of q . k is p * (scale * (d . v) - dot).

   A tile of 16 x 8 elements is spread over a warp as tensor cores have it: with quad = lane / 4 and pair = lane % 4 * 2,
   a thread has [quad][pair], [quad][pair + 1], [quad + 8][pair] and [quad + 8][pair + 1].

   From compute capability 9.0 on, the four warps of a block multiply together (`wgmma`): their 64 rows come from
   registers, and the tile from shared memory, where it is read once for all of them. */

/* How a row is multiplied: tensor cores take `terms` elements at a time. Rows of a tile are `gap` elements apart, so that
   threads of a warp reach different banks of shared memory. */
template <caravan_units units>
struct caravan_attended {
  typedef typename caravan_element<float, units>::type element;
  static constexpr bool narrow = sizeof(element) == 2;
  static constexpr int terms = narrow ? 16 : 8, gap = units == caravan_plain ? 4 : 8;
};

/* Do four warps multiply together? The instructions below are for rows of 64 elements of 16 bits. */
template <caravan_units units, int depth, int width>
struct caravan_attended_together {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  static constexpr bool value = caravan_attended<units>::narrow && depth == 64 && width == 64;
#else
  static constexpr bool value = false;
#endif
};

/* Rows of heads: row r of head h of example b begins at first[b * batch + h * head + r * row]. */
template <class T>
struct caravan_rows {
  T* first;
  int64_t batch, head, row;
};
struct caravan_heads {
  int batch, heads, rows, columns, depth; /* m < rows, n < columns, depth elements in a row */
  float scale;
};
/* Rows of one head. */
template <class T>
struct caravan_head {
  T* first;
  int64_t stride;
  int rows, depth;
};

/* 16 rows of `terms` elements: the left factor of a product. */
struct caravan_left {
  unsigned at[4];
};

template <caravan_units units>
static inline unsigned caravan_pair(float low, float high) {
  unsigned out;
  if constexpr (units == caravan_bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
template <caravan_units units>
static inline float2 caravan_unpair(unsigned both) {
  float2 out = {__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u)};
  if constexpr (units == caravan_f16)
    asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
        : "=f"(out.x), "=f"(out.y)
        : "r"(both));
  return out;
}
template <caravan_units units>
static inline unsigned caravan_rounded(float x) {
  return units == caravan_tf32 ? caravan_round_tf32(__float_as_uint(x)) : __float_as_uint(x);
}
template <caravan_units units>
static inline float caravan_power(float x) { /* 2^x */
  if constexpr (units == caravan_plain) return exp2f(x);
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

/* Adds the product of `terms` terms from k on: left[m][k] times tile[n][k], or times tile[k][n] if `across`. Tensor cores
   add eight terms in any order, so that of numbers of 4 bytes a thread gives two neighbours. Without tensor cores, each
   term is asked of the thread that has it. */
template <caravan_units units, int stride, bool across, int parts>
static inline void caravan_add_product(float (&sum)[parts][4], const caravan_left& left,
                                       const typename caravan_attended<units>::element* tile, int k) {
  const int lane = threadIdx.x % 32, quad = lane / 4, pair = lane % 4 * 2;
  if constexpr (units == caravan_plain) {
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      const float above = __shfl_sync(~0u, __uint_as_float(left.at[t % 2 * 2]), quad * 4 + t / 2),
                  below = __shfl_sync(~0u, __uint_as_float(left.at[t % 2 * 2 + 1]), quad * 4 + t / 2);
#pragma unroll
      for (int j = 0; j < parts; ++j) {
        const float b0 = across ? tile[(k + t) * stride + 8 * j + pair] : tile[(8 * j + pair) * stride + k + t],
                    b1 = across ? tile[(k + t) * stride + 8 * j + pair + 1] : tile[(8 * j + pair + 1) * stride + k + t];
        sum[j][0] = fmaf(above, b0, sum[j][0]), sum[j][1] = fmaf(above, b1, sum[j][1]);
        sum[j][2] = fmaf(below, b0, sum[j][2]), sum[j][3] = fmaf(below, b1, sum[j][3]);
      }
    }
  } else {
    unsigned right[parts][2];
    if constexpr (caravan_attended<units>::narrow) {
      const int low = lane % 8, middle = lane / 8 % 2 * 8, high = lane / 16 * 8;
      const auto* row = across ? tile + (k + middle + low) * stride + high : tile + (high + low) * stride + k + middle;
#pragma unroll
      for (int j = 0; j < parts; j += 2)
        caravan_load_squares<across>(*(unsigned(*)[4])right[j], row + (across ? 8 * j : 8 * j * stride));
    } else {
#pragma unroll
      for (int j = 0; j < parts; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          right[j][h] = caravan_rounded<units>(across ? tile[(k + pair + h) * stride + 8 * j + quad]
                                                      : tile[(8 * j + quad) * stride + k + pair + h]);
    }
#pragma unroll
    for (int j = 0; j < parts; ++j) caravan_mma<units>(sum[j], left.at, right[j]);
  }
}
/* Sums as left factors: their columns become terms. */
template <caravan_units units, int steps, int columns>
static inline void caravan_take_sums(caravan_left (&out)[steps], const float (&sum)[columns][4]) {
#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if constexpr (caravan_attended<units>::narrow)
        out[step].at[e] = caravan_pair<units>(sum[2 * step + e / 2][e % 2 * 2], sum[2 * step + e / 2][e % 2 * 2 + 1]);
      else
        out[step].at[e] = caravan_rounded<units>(sum[step][e % 2 * 2 + e / 2]);
    }
}

/* A tile of rows of 128 bytes as the instructions for four warps are told of it: where it begins, and that groups of 8
   rows are 1024 bytes apart, in which piece number p of 16 bytes of row r is at p ^ r (caravan_tiles::place). */
static inline uint64_t caravan_tile_of(const void* tile) {
  const uint64_t swapped = 1, apart = 1024 / 16;
  return swapped << 62 | apart << 32 | apart << 16 | (caravan_shared_address(tile) & 0x3ffff) / 16;
}
/* Nothing that uses these registers is moved across this: products change them while the threads go on. */
template <int parts>
static inline void caravan_keep(float (&sum)[parts][4]) {
#pragma unroll
  for (int j = 0; j < parts; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(sum[j][e])::"memory");
}
template <bool together>
static inline void caravan_begin_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (together) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
template <bool together>
static inline void caravan_end_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (together)
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
}
/* Begins to add the product of 16 terms: left[m][k] times tile[n][k], or times tile[k][n] if `across`. The left factor
   is in registers, or it is another tile. */
#define CARAVAN_FOUR(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define CARAVAN_TOGETHER(type, factors, ...)                                                                            \
  asm volatile(                                                                                                      \
      "{.reg .pred adds;\nsetp.eq.u32 adds, 0, 0;\n"                                                                 \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                                    \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
      "%29,%30,%31}, " factors ";\n}"                                                                                \
      : CARAVAN_FOUR(0), CARAVAN_FOUR(1), CARAVAN_FOUR(2), CARAVAN_FOUR(3), CARAVAN_FOUR(4), CARAVAN_FOUR(5),        \
        CARAVAN_FOUR(6), CARAVAN_FOUR(7)                                                                             \
      : __VA_ARGS__)
template <caravan_units units, bool across>
static inline void caravan_add_together(float (&d)[8][4], const caravan_left& left, uint64_t tile) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const unsigned(&a)[4] = left.at;
  if constexpr (units == caravan_bf16)
    CARAVAN_TOGETHER("bf16", "{%32,%33,%34,%35}, %36, adds, 1, 1, %37", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                     "l"(tile), "n"(across ? 1 : 0));
  if constexpr (units == caravan_f16)
    CARAVAN_TOGETHER("f16", "{%32,%33,%34,%35}, %36, adds, 1, 1, %37", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                     "l"(tile), "n"(across ? 1 : 0));
#endif
}
template <caravan_units units>
static inline void caravan_add_together(float (&d)[8][4], uint64_t left, uint64_t tile) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (units == caravan_bf16)
    CARAVAN_TOGETHER("bf16", "%32, %33, adds, 1, 1, 0, 0", "l"(left), "l"(tile));
  if constexpr (units == caravan_f16) CARAVAN_TOGETHER("f16", "%32, %33, adds, 1, 1, 0, 0", "l"(left), "l"(tile));
#endif
}
#undef CARAVAN_TOGETHER
#undef CARAVAN_FOUR

/* Adds the product of held rows and the rows of a tile: sum[m][n] += held[m] . tile[n]. Between caravan_begin_products
   and caravan_end_products, and then to be kept. */
template <caravan_units units, class Tiles, int parts, int steps>
static inline void caravan_add_scores(float (&sum)[parts][4], const caravan_left (&held)[steps],
                                      const typename caravan_attended<units>::element* tile) {
  constexpr int terms = caravan_attended<units>::terms;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    if constexpr (Tiles::together)
      caravan_add_together<units, false>(sum, held[step], caravan_tile_of(tile + step * terms));
    else
      caravan_add_product<units, Tiles::stride, false>(sum, held[step], tile, step * terms);
  }
}
/* Likewise, where the left factor is a tile. */
template <caravan_units units, class Tiles, int parts>
static inline void caravan_add_scores(float (&sum)[parts][4], const typename caravan_attended<units>::element* left,
                                      const typename caravan_attended<units>::element* tile) {
  constexpr int terms = caravan_attended<units>::terms;
#pragma unroll
  for (int step = 0; step < Tiles::stride / terms; ++step)
    caravan_add_together<units>(sum, caravan_tile_of(left + step * terms), caravan_tile_of(tile + step * terms));
}
/* Likewise, sum[m][k] += left[m][n] * tile[n][k]. */
template <caravan_units units, class Tiles, int parts, int steps>
static inline void caravan_add_weighted(float (&sum)[parts][4], const caravan_left (&left)[steps],
                                        const typename caravan_attended<units>::element* tile) {
  constexpr int terms = caravan_attended<units>::terms;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    if constexpr (Tiles::together)
      caravan_add_together<units, true>(sum, left[step], caravan_tile_of(tile + step * terms * Tiles::stride));
    else
      caravan_add_product<units, Tiles::stride, true>(sum, left[step], tile, step * terms);
  }
}

/* 16 rows as left factors; rows and elements that do not exist are 0. */
template <caravan_units units, int steps>
static inline void caravan_hold(caravan_left (&out)[steps],
                                caravan_head<const typename caravan_attended<units>::element> x, int row) {
  const int lane = threadIdx.x % 32, quad = lane / 4, pair = lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = row + quad + 8 * half;
    const auto* from = x.first + int64_t(at) * x.stride + pair;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      if constexpr (caravan_attended<units>::narrow) {
#pragma unroll
        for (int k = 0; k < 16; k += 8)
          out[step].at[k / 4 + half] =
              at < x.rows && step * 16 + k + pair < x.depth ? *(const unsigned*)(from + step * 16 + k) : 0;
      } else {
        float2 both = {0, 0};
        if (at < x.rows && step * 8 + pair < x.depth) both = *(const float2*)(from + step * 8);
        out[step].at[half] = caravan_rounded<units>(both.x), out[step].at[2 + half] = caravan_rounded<units>(both.y);
      }
    }
  }
}

/* The sum of x over the four threads that have elements of the same rows. */
static inline float caravan_of_row(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
/* For the two rows of this thread, the sum over their elements of a * b. */
template <caravan_units units, int steps>
static inline void caravan_dots(float (&out)[2], const caravan_left (&a)[steps], const caravan_left (&b)[steps]) {
  out[0] = out[1] = 0;
#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if constexpr (caravan_attended<units>::narrow) {
        const float2 x = caravan_unpair<units>(a[step].at[e]), y = caravan_unpair<units>(b[step].at[e]);
        out[e % 2] = fmaf(x.y, y.y, fmaf(x.x, y.x, out[e % 2]));
      } else {
        out[e % 2] = fmaf(__uint_as_float(a[step].at[e]), __uint_as_float(b[step].at[e]), out[e % 2]);
      }
    }
  out[0] = caravan_of_row(out[0]), out[1] = caravan_of_row(out[1]);
}

template <caravan_units units, int parts>
static inline void caravan_store_rows(caravan_head<typename caravan_attended<units>::element> x, int row,
                                      const float (&sum)[parts][4]) {
  const int lane = threadIdx.x % 32, quad = lane / 4, pair = lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = row + quad + 8 * half;
    if (at >= x.rows) continue;
    auto* to = x.first + int64_t(at) * x.stride + pair;
#pragma unroll
    for (int j = 0; j < parts; ++j) {
      if (8 * j + pair >= x.depth) continue;
      if constexpr (caravan_attended<units>::narrow)
        *(unsigned*)(to + 8 * j) = caravan_pair<units>(sum[j][2 * half], sum[j][2 * half + 1]);
      else
        *(float2*)(to + 8 * j) = {sum[j][2 * half], sum[j][2 * half + 1]};
    }
  }
}

constexpr int caravan_attention_threads = 128, caravan_attention_rows_of_block = 64;
/* Waits for what the threads of the block have copied; what four warps multiply together must be fenced. */
static inline void caravan_copied() {
  asm volatile("cp.async.wait_all;" ::: "memory");
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  asm volatile("bar.sync 1, %0;" ::"n"(caravan_attention_threads) : "memory");
}

/* `width` rows of two tensors in shared memory, and two numbers for each. */
template <caravan_units units, int depth, int width>
struct alignas(caravan_attended_together<units, depth, width>::value ? 1024 : 16) caravan_tiles {
  typedef typename caravan_attended<units>::element element;
  static constexpr bool together = caravan_attended_together<units, depth, width>::value;
  static constexpr int stride = depth + (together ? 0 : caravan_attended<units>::gap);
  static int place(int row, int k) { return row * stride + (together ? k ^ row % 8 * 8 : k); } /* k: of 16 bytes */
  element first[width * stride], second[width * stride];
  float numbers[2][width];

  /* Begins to copy rows from `row` on; rows and elements that do not exist become 0. */
  static void copy(element* to, int row, caravan_head<const element> from) {
    constexpr int chunk = 16 / sizeof(element), chunks = depth / chunk;
#pragma unroll 4
    for (int e = threadIdx.x; e < width * chunks; e += caravan_attention_threads) {
      const int r = e / chunks, k = e % chunks * chunk;
      const bool exists = row + r < from.rows && k < from.depth;
      caravan_copy<16>(to + place(r, k), from.first + (exists ? int64_t(row + r) * from.stride + k : 0), exists);
    }
  }
  void copy_numbers(int row, int rows, const float* x, const float* y) {
    for (int e = threadIdx.x; e < 2 * width; e += caravan_attention_threads) {
      const int at = row + e % width;
      caravan_copy<4>(&numbers[e / width][e % width], (e < width ? x : y) + (at < rows ? at : 0), at < rows);
    }
  }
};

/* A part of the work: rows from `row` on of a head. The parts that take longest come first. */
struct caravan_place {
  int batch, head, row;
  template <class T>
  caravan_head<T> of(const caravan_rows<T>& x, int rows, int depth) const {
    return {x.first + batch * x.batch + head * x.head, x.row, rows, depth};
  }
  int64_t numbers(const caravan_heads& h) const { return (int64_t(batch) * h.heads + head) * h.rows; }
};
static inline int caravan_places(const caravan_heads& h, int rows) {
  return h.batch * h.heads * ((rows + caravan_attention_rows_of_block - 1) / caravan_attention_rows_of_block);
}
static inline caravan_place caravan_place_of(const caravan_heads& h, int number, int rows, bool last_first) {
  const int parts = caravan_places(h, rows) / (h.batch * h.heads), head = number / parts, part = number % parts;
  return {head / h.heads, head % h.heads, (last_first ? parts - 1 - part : part) * caravan_attention_rows_of_block};
}

template <caravan_units units, int depth, int width, bool causal,
          class E = typename caravan_attended<units>::element>
static inline void caravan_attention(int block, int blocks, caravan_heads h, caravan_rows<E> out, float* totals,
                                     caravan_rows<const E> q, caravan_rows<const E> k, caravan_rows<const E> v) {
  typedef caravan_tiles<units, depth, width> Tiles;
  constexpr int terms = caravan_attended<units>::terms;
  Tiles* stages = (Tiles*)caravan_shared();
  if (threadIdx.x >= caravan_attention_threads) return;
  const int lane = threadIdx.x % 32, quad = lane / 4, pair = lane % 4 * 2;
  const float factor = h.scale * 1.4426950408889634f; /* log2(e) */
  for (int number = block; number < caravan_places(h, h.rows); number += blocks) {
    const caravan_place place = caravan_place_of(h, number, h.rows, true);
    const int row = place.row + threadIdx.x / 32 * 16;
    auto copy = [&](int n, Tiles& to) {
      Tiles::copy(to.first, n, place.of(k, h.columns, h.depth));
      Tiles::copy(to.second, n, place.of(v, h.columns, h.depth));
    };
    copy(0, stages[0]);
    caravan_left held[depth / terms];
    caravan_hold<units>(held, place.of(q, h.rows, h.depth), row);
    float result[depth / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    const int end = causal ? min(h.columns, place.row + caravan_attention_rows_of_block) : h.columns;
    for (int n = 0, stage = 0; n < end; n += width, stage ^= 1) {
      caravan_copied();
      if (n + width < end) copy(n + width, stages[stage ^ 1]);
      if (!Tiles::together && causal && n > row + 15) continue;
      float score[width / 8][4] = {};
      caravan_keep(score);
      caravan_begin_products<Tiles::together>();
      caravan_add_scores<units, Tiles>(score, held, stages[stage].first);
      caravan_end_products<Tiles::together>();
      caravan_keep(score);
      if ((causal && n + width > row + 1) || n + width > h.columns)
#pragma unroll
        for (int j = 0; j < width / 8; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int column = n + 8 * j + pair + e % 2;
            if (column >= h.columns || (causal && column > row + quad + e / 2 * 8)) score[j][e] = -INFINITY;
          }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float now = most[half], part = 0;
#pragma unroll
        for (int j = 0; j < width / 8; ++j) now = fmaxf(now, fmaxf(score[j][2 * half], score[j][2 * half + 1]));
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
        const float less = caravan_power<units>((most[half] - now) * factor), shift = now * factor;
        most[half] = now;
#pragma unroll
        for (int j = 0; j < width / 8; ++j)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            score[j][e] = caravan_power<units>(fmaf(score[j][e], factor, -shift));
            part += score[j][e];
          }
        sum[half] = sum[half] * less + part;
#pragma unroll
        for (int j = 0; j < depth / 8; ++j) result[j][2 * half] *= less, result[j][2 * half + 1] *= less;
      }
      caravan_left weights[width / terms];
      caravan_take_sums<units>(weights, score);
      caravan_keep(result);
      caravan_begin_products<Tiles::together>();
      caravan_add_weighted<units, Tiles>(result, weights, stages[stage].second);
      caravan_end_products<Tiles::together>();
      caravan_keep(result);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float all = caravan_of_row(sum[half]), inverse = 1 / all;
#pragma unroll
      for (int j = 0; j < depth / 8; ++j) result[j][2 * half] *= inverse, result[j][2 * half + 1] *= inverse;
      const int at = row + quad + 8 * half;
      if (totals && pair == 0 && at < h.rows)
        totals[place.numbers(h) + at] = most[half] * factor + log2f(all);
    }
    caravan_store_rows<units>(place.of(out, h.rows, h.depth), row, result);
    caravan_copied();
  }
}

template <caravan_units units, int depth, int width, bool causal,
          class E = typename caravan_attended<units>::element>
static inline void caravan_attention_rows(int block, int blocks, caravan_heads h, caravan_rows<E> d_q, float* dots,
                                          caravan_rows<const E> q, caravan_rows<const E> k, caravan_rows<const E> v,
                                          caravan_rows<const E> out, caravan_rows<const E> d, const float* totals) {
  typedef caravan_tiles<units, depth, width> Tiles;
  constexpr int terms = caravan_attended<units>::terms;
  Tiles* stages = (Tiles*)caravan_shared();
  if (threadIdx.x >= caravan_attention_threads) return;
  const int lane = threadIdx.x % 32, quad = lane / 4, pair = lane % 4 * 2;
  const float factor = h.scale * 1.4426950408889634f;
  for (int number = block; number < caravan_places(h, h.rows); number += blocks) {
    const caravan_place place = caravan_place_of(h, number, h.rows, true);
    const int row = place.row + threadIdx.x / 32 * 16;
    auto copy = [&](int n, Tiles& to) {
      Tiles::copy(to.first, n, place.of(k, h.columns, h.depth));
      Tiles::copy(to.second, n, place.of(v, h.columns, h.depth));
    };
    copy(0, stages[0]);
    caravan_left held[depth / terms], d_held[depth / terms];
    float dot[2], total[2];
    if constexpr (Tiles::together) { /* there are not enough registers for them */
      Tiles::copy(stages[2].first, place.row, place.of(q, h.rows, h.depth));
      Tiles::copy(stages[2].second, place.row, place.of(d, h.rows, h.depth));
    }
    caravan_hold<units>(held, place.of(out, h.rows, h.depth), row);
    caravan_hold<units>(d_held, place.of(d, h.rows, h.depth), row);
    caravan_dots<units>(dot, held, d_held);
    if constexpr (!Tiles::together) caravan_hold<units>(held, place.of(q, h.rows, h.depth), row);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = row + quad + 8 * half;
      total[half] = at < h.rows ? totals[place.numbers(h) + at] : 0, dot[half] *= h.scale;
      if (pair == 0 && at < h.rows) dots[place.numbers(h) + at] = dot[half];
    }
    float result[depth / 8][4] = {};
    const int end = causal ? min(h.columns, place.row + caravan_attention_rows_of_block) : h.columns;
    for (int n = 0, stage = 0; n < end; n += width, stage ^= 1) {
      caravan_copied();
      if (n + width < end) copy(n + width, stages[stage ^ 1]);
      if (!Tiles::together && causal && n > row + 15) continue;
      const Tiles& now = stages[stage];
      float score[width / 8][4] = {}, d_weight[width / 8][4] = {};
      caravan_keep(score), caravan_keep(d_weight);
      caravan_begin_products<Tiles::together>();
      if constexpr (Tiles::together) {
        caravan_add_scores<units, Tiles>(score, stages[2].first, now.first);
        caravan_add_scores<units, Tiles>(d_weight, stages[2].second, now.second);
      } else {
        caravan_add_scores<units, Tiles>(score, held, now.first);
        caravan_add_scores<units, Tiles>(d_weight, d_held, now.second);
      }
      caravan_end_products<Tiles::together>();
      caravan_keep(score), caravan_keep(d_weight);
      const bool border = (causal && n + width > row + 1) || n + width > h.columns;
#pragma unroll
      for (int j = 0; j < width / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = n + 8 * j + pair + e % 2;
          float weight = caravan_power<units>(fmaf(score[j][e], factor, -total[e / 2]));
          if (border && (column >= h.columns || (causal && column > row + quad + e / 2 * 8))) weight = 0;
          score[j][e] = weight * fmaf(d_weight[j][e], h.scale, -dot[e / 2]);
        }
      caravan_left d_scores[width / terms];
      caravan_take_sums<units>(d_scores, score);
      caravan_keep(result);
      caravan_begin_products<Tiles::together>();
      caravan_add_weighted<units, Tiles>(result, d_scores, now.first);
      caravan_end_products<Tiles::together>();
      caravan_keep(result);
    }
    caravan_store_rows<units>(place.of(d_q, h.rows, h.depth), row, result);
    caravan_copied();
  }
}

template <caravan_units units, int depth, int width, bool causal,
          class E = typename caravan_attended<units>::element>
static inline void caravan_attention_columns(int block, int blocks, caravan_heads h, caravan_rows<E> d_k,
                                             caravan_rows<E> d_v, caravan_rows<const E> q, caravan_rows<const E> k,
                                             caravan_rows<const E> v, caravan_rows<const E> d, const float* totals,
                                             const float* dots) {
  typedef caravan_tiles<units, depth, width> Tiles;
  constexpr int terms = caravan_attended<units>::terms;
  Tiles* stages = (Tiles*)caravan_shared();
  if (threadIdx.x >= caravan_attention_threads) return;
  const int lane = threadIdx.x % 32, quad = lane / 4, pair = lane % 4 * 2;
  const float factor = h.scale * 1.4426950408889634f;
  for (int number = block; number < caravan_places(h, h.columns); number += blocks) {
    const caravan_place place = caravan_place_of(h, number, h.columns, false);
    const int row = place.row + threadIdx.x / 32 * 16; /* of k and v */
    auto copy = [&](int m, Tiles& to) {
      Tiles::copy(to.first, m, place.of(q, h.rows, h.depth));
      Tiles::copy(to.second, m, place.of(d, h.rows, h.depth));
      to.copy_numbers(m, h.rows, totals + place.numbers(h), dots + place.numbers(h));
    };
    const int begin = causal ? place.row / width * width : 0;
    if (begin < h.rows) copy(begin, stages[0]);
    caravan_left keys[depth / terms], values[depth / terms];
    if constexpr (Tiles::together) { /* there are not enough registers for them */
      Tiles::copy(stages[2].first, place.row, place.of(k, h.columns, h.depth));
      Tiles::copy(stages[2].second, place.row, place.of(v, h.columns, h.depth));
    } else {
      caravan_hold<units>(keys, place.of(k, h.columns, h.depth), row);
      caravan_hold<units>(values, place.of(v, h.columns, h.depth), row);
    }
    float of_keys[depth / 8][4] = {}, of_values[depth / 8][4] = {};
    for (int m = begin, stage = 0; m < h.rows; m += width, stage ^= 1) {
      caravan_copied();
      if (m + width < h.rows) copy(m + width, stages[stage ^ 1]);
      if (!Tiles::together && causal && m + width <= row) continue;
      const Tiles& now = stages[stage];
      float weight[width / 8][4] = {}, d_weight[width / 8][4] = {};
      caravan_keep(weight), caravan_keep(d_weight);
      caravan_begin_products<Tiles::together>();
      if constexpr (Tiles::together) {
        caravan_add_scores<units, Tiles>(weight, stages[2].first, now.first);
        caravan_add_scores<units, Tiles>(d_weight, stages[2].second, now.second);
      } else {
        caravan_add_scores<units, Tiles>(weight, keys, now.first);
        caravan_add_scores<units, Tiles>(d_weight, values, now.second);
      }
      caravan_end_products<Tiles::together>();
      caravan_keep(weight), caravan_keep(d_weight);
      const bool border = causal && m < row + 15;
#pragma unroll
      for (int j = 0; j < width / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int at = 8 * j + pair + e % 2;
          weight[j][e] = caravan_power<units>(fmaf(weight[j][e], factor, -now.numbers[0][at]));
          if (border && m + at < row + quad + e / 2 * 8) weight[j][e] = 0;
          d_weight[j][e] = weight[j][e] * fmaf(d_weight[j][e], h.scale, -now.numbers[1][at]);
        }
      caravan_left weights[width / terms], d_scores[width / terms];
      caravan_take_sums<units>(weights, weight);
      caravan_take_sums<units>(d_scores, d_weight);
      caravan_keep(of_values), caravan_keep(of_keys);
      caravan_begin_products<Tiles::together>();
      caravan_add_weighted<units, Tiles>(of_values, weights, now.second);
      caravan_add_weighted<units, Tiles>(of_keys, d_scores, now.first);
      caravan_end_products<Tiles::together>();
      caravan_keep(of_values), caravan_keep(of_keys);
    }
    caravan_store_rows<units>(place.of(d_k, h.columns, h.depth), row, of_keys);
    caravan_store_rows<units>(place.of(d_v, h.columns, h.depth), row, of_values);
    caravan_copied();
  }
}
