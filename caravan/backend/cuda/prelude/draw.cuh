#pragma once

/* What caravan/base/prelude/normal.h asks for stands before this text. */

/* Element e is ((begin + width * n) * first) * second, with n drawn for e: caravan::Drawing of caravan/base/random.h. */
template <class T>
static inline void caravan_draw_all(T* to, int64_t count, uint64_t seed, uint64_t stream, int64_t normal, double begin,
                                    double width, double first, double second) {
  for (int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; e < count; e += int64_t(gridDim.x) * blockDim.x) {
    const uint32_t word = caravan_random(seed, stream, 0, uint64_t(e), 0);
    double n;
    if (normal) {
      const uint32_t other = caravan_random(seed, stream, 0, uint64_t(e), 1);
      n = sqrt(caravan_squared_radius(word)) * caravan_direction(other);
    } else {
      n = double(word >> 8) / 16777216;
    }
    to[e] = T((begin + width * n) * first * second);
  }
}
extern "C" __global__ void caravan_draw_f32(float* to, int64_t count, uint64_t seed, uint64_t stream, int64_t normal,
                                            double begin, double width, double first, double second) {
  caravan_draw_all(to, count, seed, stream, normal, begin, width, first, second);
}
extern "C" __global__ void caravan_draw_f64(double* to, int64_t count, uint64_t seed, uint64_t stream, int64_t normal,
                                            double begin, double width, double first, double second) {
  caravan_draw_all(to, count, seed, stream, normal, begin, width, first, second);
}
