// The device that tests of compiled programs run on: the processor, or a GPU if CARAVAN_TEST_DEVICE is `cuda`
// (`./dev test --cuda`).
#pragma once

#include <cstdlib>
#include <string_view>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/cuda/device.h"

namespace caravan {

inline bool on_gpu() {
  const char* device = std::getenv("CARAVAN_TEST_DEVICE");
  return device && std::string_view(device) == "cuda";
}
inline std::unique_ptr<backend::Device> compiled_device(const cc::DeviceOptions& options) {
  if (!on_gpu()) return cc::make_device(options);
  return cuda::make_device({.seed = options.seed, .cache = options.compiler.cache});
}

}  // namespace caravan
