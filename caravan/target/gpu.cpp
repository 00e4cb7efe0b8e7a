#include "caravan/target/gpu.h"

namespace caravan {

Gpu gpu_of(int compute, int64_t multiprocessors) {
  Gpu out;
  out.compute = compute;
  out.multiprocessors = multiprocessors;
  out.clustered = multiprocessors * 7 / 8;  // as measured on an H200: 115 of 132
  constexpr int kFirstWithClusters = 90;    // and with kernels that start early
  if (compute < kFirstWithClusters) out.most_slices = 1, out.early_kernels = false;
  return out;
}

std::vector<int64_t> given(const Gpu& gpu) {
  return {gpu.compute, gpu.multiprocessors, gpu.memory, gpu.shared_bytes, gpu.tf32, gpu.library_products};
}

}  // namespace caravan
