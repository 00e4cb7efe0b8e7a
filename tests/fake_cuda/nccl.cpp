// NCCL for tests on machines that have none. Its messages bring nothing. FAKE_NCCL=old is a version without messages.
#include <cstdlib>

#include "caravan/backend/nccl/library.h"

namespace caravan::nccl {

extern "C" Result fake_nccl_version(int* version) __asm__("ncclGetVersion");
Result fake_nccl_version(int* version) { return *version = std::getenv("FAKE_NCCL") ? 2402 : 22105, 0; }

}  // namespace caravan::nccl
