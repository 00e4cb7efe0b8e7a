// Initial values that a GPU draws have the bits that a processor gives them: the text of the kernel, compiled for this
// processor, and on a GPU, where there is one.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "caravan/base/random.h"
#include "caravan/target/initial_values.h"
#include "compiled_device.h"

namespace caravan {
namespace {

namespace gpu {

struct Place {
  unsigned x = 0;
};
Place blockIdx, threadIdx;
const Place gridDim{3}, blockDim{4};
using std::sqrt;

#define __global__ [[maybe_unused]]
#define CARAVAN_INLINE inline
CARAVAN_INLINE uint64_t caravan_bits_of(double x) { return std::bit_cast<uint64_t>(x); }
CARAVAN_INLINE double caravan_double_of(uint64_t bits) { return std::bit_cast<double>(bits); }
// clang-format off
#include "caravan/codegen/prelude/random.h"
#include "caravan/base/prelude/normal.h"
#include "caravan/backend/cuda/prelude/draw.cuh"
// clang-format on
#undef CARAVAN_INLINE
#undef __global__

// All threads of all blocks, one after the other.
template <class T, class Kernel>
std::vector<T> drawn(Kernel kernel, int64_t count, const Drawing& d) {
  std::vector<T> out(static_cast<size_t>(count));
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)
      kernel(out.data(), count, d.seed, d.name_hash, d.normal, d.begin, d.width, d.first, d.second);
  return out;
}

}  // namespace gpu

TEST(DrawnOnGpu, TheKernelComputesWhatAProcessorDraws) {
  constexpr int64_t kCount = 10'000;
  const Drawing rows[] = {{true, 2, 0.02, 1, 1, 7, 8},
                          {true, -0.0, 0.3, 1, 1, 7, uint64_t(1) << 40},
                          {false, -0.1, 0.4, 1, 1, uint64_t(3) << 33, 5},
                          {false, -1, 2, 1.5, std::sqrt(3.0 / 200), 9, 10}};
  for (const Drawing& drawing : rows) {
    std::vector<double> expected(kCount);
    draw(drawing, 0, expected);
    const std::vector<float> f32 = gpu::drawn<float>(gpu::caravan_draw_f32, kCount, drawing);
    const std::vector<double> f64 = gpu::drawn<double>(gpu::caravan_draw_f64, kCount, drawing);
    for (size_t e = 0; e < expected.size(); ++e) {
      ASSERT_EQ(f64[e], expected[e]) << e;
      ASSERT_EQ(f32[e], float(expected[e])) << e;
    }
  }
}

TEST(DrawnOnGpu, AGpuComputesTheSame) {
  if (!on_gpu()) GTEST_SKIP() << "CARAVAN_TEST_DEVICE is not cuda";
  const Init rows[] = {kaiming_normal(1.5), kaiming_uniform(1.5),    xavier_normal(1.5),
                       xavier_uniform(1.5), uniform_init(-0.1, 0.3), normal_init(2, 0.02)};
  static_assert(300 * 400 >= kDrawnOnGpu);
  for (const Init& init : rows)
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      auto drawn = [&](const std::string& device) {
        Context ctx({.seed = 7, .device = device});
        Tensor w = param("w", {.input = {300}, .output = {400}, .init = init, .dtype = dtype});
        ctx.compile(observe(sum(w)));
        return ctx.read(w);
      };
      const Array here = drawn("cpu"), there = drawn("cuda");
      for (int64_t e = 0; e < here.size(); ++e)
        ASSERT_EQ(there.at(e), here.at(e)) << int(init.kind) << ", element " << e << " of " << name(dtype);
    }
}

}  // namespace
}  // namespace caravan
