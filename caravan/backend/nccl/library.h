// The functions of NVIDIA's library NCCL that are used, opened at run time.
#pragma once

#include <cstddef>
#include <string>

#include "caravan/backend/cuda/driver.h"

namespace caravan::nccl {

struct CommHandle;
struct UniqueId {
  char bytes[128] = {};
};
using Result = int;               // 0: success
inline constexpr int kBytes = 1;  // the number of the type in NCCL's interface

// clang-format off
// name here, name in the library, what it returns, parameters
#define CARAVAN_NCCL(X)                                                                                                     \
  X(version, "ncclGetVersion", Result, (int* version))                                                                      \
  X(error_text, "ncclGetErrorString", const char*, (Result error))                                                          \
  X(unique_id, "ncclGetUniqueId", Result, (UniqueId* id))                                                                   \
  X(comm_init, "ncclCommInitRank", Result, (CommHandle** comm, int ranks, UniqueId id, int rank))                           \
  X(comm_destroy, "ncclCommDestroy", Result, (CommHandle* comm))                                                            \
  X(comm_abort, "ncclCommAbort", Result, (CommHandle* comm))                                                                \
  X(group_start, "ncclGroupStart", Result, ())                                                                              \
  X(group_end, "ncclGroupEnd", Result, ())                                                                                  \
  X(send, "ncclSend", Result, (const void* from, size_t count, int type, int to, CommHandle* comm, cuda::StreamHandle* stream)) \
  X(receive, "ncclRecv", Result, (void* to, size_t count, int type, int from, CommHandle* comm, cuda::StreamHandle* stream))
// clang-format on

struct Library {
#define X(name, symbol, result, parameters) result(*name) parameters = nullptr;
  CARAVAN_NCCL(X)
#undef X
  int number = 0;  // of the version: 22105 is 2.21.5
};

// Opens it at the first call: what CARAVAN_NCCL names, else libnccl.so.2. Throws BackendError if it is missing or too
// old.
const Library& library();
std::string version_text(int number);                // "2.21.5"
void check(Result result, const std::string& what);  // throws BackendError with what NCCL says of the error

}  // namespace caravan::nccl
