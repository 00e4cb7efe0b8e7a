#pragma once

extern "C" __global__ void caravan_next(int64_t* symbols, const int64_t* ranges, int64_t count, int64_t copies,
                                        int64_t steps) {
  caravan_begin();
  for (int64_t k = threadIdx.x; k < count * copies; k += caravan_threads()) {
    const int64_t range = ranges[k % count];
    symbols[k] = range > 0 ? (symbols[k] + steps) % range : symbols[k] + steps;
  }
}
