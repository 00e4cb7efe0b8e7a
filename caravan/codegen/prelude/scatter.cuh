#pragma once

/* Sums into rows of a table, by a block of threads for `rows` of them. row_of(term) is the row that a term belongs to,
   or -1 if it is none of these. For every row that has terms, and for every column, begins with sum = start, calls
   add(term, column, sum) for the terms of the row in ascending order, and then store(row, column, sum). If many terms
   are found, a row is stored several times, always by the same thread.
   Threads look through all terms side by side and note those that belong to their rows, in order. What was noted is then
   put into the order of rows, and threads share the rows and columns. */
template <int lanes, int rows, class T, class RowOf, class Add, class Store>
static inline void caravan_scatter(int lane, int columns, int terms, T start, RowOf row_of, Add add, Store store) {
  static_assert(lanes == 1024 && rows <= 128, "every warp reads the counts of all 32 warps");
  constexpr int most = 1024; /* terms that are noted at a time */
  struct Noted {
    int term[most];            /* in ascending order */
    int begins[rows + 1];      /* where the terms of each row begin in `order` */
    int counts[2][lanes / 32]; /* terms that each warp has found; two turns are under way at a time */
    unsigned short order[most];
    unsigned char row[most];
  };
  static_assert(sizeof(Noted) <= 8192, "");
  Noted& noted = *(Noted*)caravan_shared();
  int found = 0; /* the same number in all threads */
  auto wait = [] { caravan_wait<lanes, false>(); };
  auto add_up = [&] {
    wait();
    if (lane < rows) {
      int at = 0;
      for (int k = 0; k < found; ++k) at += noted.row[k] < lane;
      noted.begins[lane] = at;
      for (int k = 0; k < found; ++k)
        if (noted.row[k] == lane) noted.order[at++] = k;
    }
    if (lane == 0) noted.begins[rows] = found;
    wait();
    for (int e = lane; e < rows * columns; e += lanes) {
      const int row = e / columns, column = e % columns, begin = noted.begins[row], end = noted.begins[row + 1];
      if (begin == end) continue;
      T sum = start;
#pragma unroll 8
      for (int k = begin; k < end; ++k) add(noted.term[noted.order[k]], column, sum);
      store(row, column, sum);
    }
    wait();
    found = 0;
  };
  int next = lane < terms ? row_of(lane) : -1;
  for (int from = 0, turn = 0; from < terms; from += lanes, turn ^= 1) {
    const int row = next, term = from + lane, warp = lane / 32;
    next = term + lanes < terms ? row_of(term + lanes) : -1;
    const unsigned hits = __ballot_sync(~0u, row >= 0);
    if (lane % 32 == 0) noted.counts[turn][warp] = __popc(hits);
    wait();
    int up_to = noted.counts[turn][lane % 32]; /* terms found by the first warps */
    for (int step = 1; step < 32; step *= 2) {
      const int below = __shfl_up_sync(~0u, up_to, step);
      if (lane % 32 >= step) up_to += below;
    }
    const int all = __shfl_sync(~0u, up_to, 31), before = __shfl_sync(~0u, up_to, (warp + 31) % 32);
    if (all == 0) continue;
    if (found + all > most) add_up();
    if (row >= 0) {
      const int at = found + (warp == 0 ? 0 : before) + __popc(hits & ((1u << (lane % 32)) - 1));
      noted.term[at] = term, noted.row[at] = row;
    }
    found += all;
  }
  if (found > 0) add_up();
}
