// Functions of NCCL that do nothing, successfully. That of nccl.cpp replaces one of them.
#include "caravan/backend/nccl/library.h"

namespace caravan::nccl {

#define X(name, symbol, result, parameters)                      \
  extern "C" result fake_nccl_##name parameters __asm__(symbol); \
  extern "C" __attribute__((weak)) result fake_nccl_##name parameters { return {}; }
CARAVAN_NCCL(X)
#undef X

}  // namespace caravan::nccl
