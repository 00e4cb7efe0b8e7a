#pragma once

/* out[k] = rows[0][k] combined with rows[1][k], .. : `load` makes a number of what is stored, both(a, b) combines two, and
   `store` makes what is stored of a number. Partial results of 1, 2, 4, .. rows wait until as many rows follow them.
   Those that are left at the end are combined from the smallest to the largest: the tree of backend::combine. */
template <class Stored, class Load, class Both, class Store>
static inline void caravan_combine_rows(const Stored* rows, Stored* out, int64_t count, int64_t n, Load load, Both both,
                                        Store store) {
  typedef decltype(load(*rows)) Computed;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t k = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; k < count; k += step) {
    Computed waiting[32];
    int levels[32], depth = 0;
    for (int64_t r = 0; r < n; ++r) {
      Computed value = load(rows[r * count + k]);
      int level = 0;
      for (; depth > 0 && levels[depth - 1] == level; ++level) value = both(waiting[--depth], value);
      waiting[depth] = value, levels[depth++] = level;
    }
    Computed total = waiting[--depth];
    while (depth > 0) total = both(waiting[--depth], total);
    out[k] = store(total);
  }
}
