// Functions of both libraries that do nothing, successfully. Those of driver.cpp and nvrtc.cpp replace some of them.
#include "functions.h"

namespace caravan::cuda {

#define X(name, symbol, parameters) \
  extern "C" __attribute__((weak)) Result fake_##name parameters { return 0; }
CARAVAN_CUDA_DRIVER(X)
#undef X
#define X(name, symbol, parameters) \
  extern "C" __attribute__((weak)) Result fake_nvrtc_##name parameters { return 0; }
CARAVAN_NVRTC(X)
#undef X

}  // namespace caravan::cuda
