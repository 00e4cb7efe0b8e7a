// The functions of the driver and of the run-time compiler by the names that they have in NVIDIA's libraries.
#pragma once

#include "caravan/backend/cuda/driver.h"

namespace caravan::cuda {

#define X(name, symbol, parameters) extern "C" Result fake_##name parameters __asm__(symbol);
CARAVAN_CUDA_DRIVER(X)
#undef X
#define X(name, symbol, parameters) extern "C" Result fake_nvrtc_##name parameters __asm__(symbol);
CARAVAN_NVRTC(X)
#undef X

}  // namespace caravan::cuda
