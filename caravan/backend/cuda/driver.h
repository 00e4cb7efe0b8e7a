// The functions of NVIDIA's driver and of its run-time compiler (NVRTC) that this backend calls. Both libraries are
// opened when a GPU is first asked for, so that a program that was built without CUDA runs on a machine with a GPU, and
// one that never uses a GPU runs without them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "caravan/base/error.h"

namespace caravan::cuda {

// There is no GPU that can be used, and why not: no driver, no device, no compiler.
class NoGpuError : public BackendError {
 public:
  using BackendError::BackendError;
};

using Result = int;  // 0: success
using DeviceNumber = int;
using Address = uint64_t;  // in the memory of a GPU
struct ContextHandle;
struct ModuleHandle;
struct FunctionHandle;
struct StreamHandle;
struct EventHandle;
struct GraphHandle;
struct GraphExecHandle;
struct GraphNodeHandle;
struct ProgramHandle;

// The arguments of a launch, as the driver lays them out.
struct LaunchAttribute {
  static constexpr int kEarly = 6;  // the kernel may start while the one before it in the stream still runs
  int id = 0, unused = 0;
  int value = 0;
  char more[60] = {};
};
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
  StreamHandle* stream;
  const LaunchAttribute* attributes;
  unsigned count;
};

// clang-format off
// name here, name in the library, parameters
#define CARAVAN_CUDA_DRIVER(X)                                                                                            \
  X(init, "cuInit", (unsigned flags))                                                                                     \
  X(driver_version, "cuDriverGetVersion", (int* version))                                                                 \
  X(error_text, "cuGetErrorString", (Result error, const char** text))                                                    \
  X(device_count, "cuDeviceGetCount", (int* count))                                                                       \
  X(device_get, "cuDeviceGet", (DeviceNumber* device, int ordinal))                                                       \
  X(device_name, "cuDeviceGetName", (char* name, int length, DeviceNumber device))                                        \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, DeviceNumber device))                           \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t* bytes, DeviceNumber device))                                           \
  X(context_retain, "cuDevicePrimaryCtxRetain", (ContextHandle** context, DeviceNumber device))                           \
  X(context_set, "cuCtxSetCurrent", (ContextHandle* context))                                                             \
  X(memory_info, "cuMemGetInfo_v2", (size_t* free, size_t* total))                                                        \
  X(allocate, "cuMemAlloc_v2", (Address* address, size_t bytes))                                                          \
  X(free, "cuMemFree_v2", (Address address))                                                                              \
  X(allocate_host, "cuMemAllocHost_v2", (void** memory, size_t bytes))                                                    \
  X(free_host, "cuMemFreeHost", (void* memory))                                                                           \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", (Address to, const void* from, size_t bytes, StreamHandle* stream))           \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void* to, Address from, size_t bytes, StreamHandle* stream))                   \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2", (Address to, Address from, size_t bytes, StreamHandle* stream))               \
  X(set_bytes, "cuMemsetD8Async", (Address at, unsigned char value, size_t bytes, StreamHandle* stream))                  \
  X(stream_create, "cuStreamCreate", (StreamHandle** stream, unsigned flags))                                             \
  X(stream_destroy, "cuStreamDestroy_v2", (StreamHandle* stream))                                                         \
  X(stream_wait, "cuStreamSynchronize", (StreamHandle* stream))                                                           \
  X(capture_begin, "cuStreamBeginCapture_v2", (StreamHandle* stream, int mode))                                           \
  X(capture_end, "cuStreamEndCapture", (StreamHandle* stream, GraphHandle** graph))                                       \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (GraphExecHandle** made, GraphHandle* graph, unsigned long long flags)) \
  X(graph_launch, "cuGraphLaunch", (GraphExecHandle* graph, StreamHandle* stream))                                        \
  X(graph_destroy, "cuGraphDestroy", (GraphHandle* graph))                                                                \
  X(graph_exec_destroy, "cuGraphExecDestroy", (GraphExecHandle* graph))                                                   \
  X(module_load, "cuModuleLoadData", (ModuleHandle** module, const void* image))                                          \
  X(module_unload, "cuModuleUnload", (ModuleHandle* module))                                                              \
  X(module_function, "cuModuleGetFunction", (FunctionHandle** function, ModuleHandle* module, const char* name))          \
  X(function_set, "cuFuncSetAttribute", (FunctionHandle* function, int attribute, int value))                              \
  X(launch, "cuLaunchKernelEx", (const LaunchConfig* config, FunctionHandle* function, void** arguments, void** extra))   \
  X(stream_after, "cuStreamWaitEvent", (StreamHandle* stream, EventHandle* event, unsigned flags))                        \
  X(event_create, "cuEventCreate", (EventHandle** event, unsigned flags))                                                 \
  X(event_destroy, "cuEventDestroy_v2", (EventHandle* event))                                                             \
  X(event_record, "cuEventRecord", (EventHandle* event, StreamHandle* stream))                                            \
  X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, EventHandle* start, EventHandle* end))

#define CARAVAN_NVRTC(X)                                                                                                   \
  X(version, "nvrtcVersion", (int* major, int* minor))                                                                     \
  X(create, "nvrtcCreateProgram", (ProgramHandle** program, const char* text, const char* name, int headers,               \
                                   const char* const* header_texts, const char* const* header_names))                      \
  X(destroy, "nvrtcDestroyProgram", (ProgramHandle** program))                                                             \
  X(compile, "nvrtcCompileProgram", (ProgramHandle* program, int count, const char* const* options))                       \
  X(code_size, "nvrtcGetCUBINSize", (ProgramHandle* program, size_t* bytes))                                               \
  X(code, "nvrtcGetCUBIN", (ProgramHandle* program, char* code))                                                           \
  X(log_size, "nvrtcGetProgramLogSize", (ProgramHandle* program, size_t* bytes))                                           \
  X(log, "nvrtcGetProgramLog", (ProgramHandle* program, char* log))
// clang-format on

struct Driver {
#define X(name, symbol, parameters) Result(*name) parameters = nullptr;
  CARAVAN_CUDA_DRIVER(X)
#undef X
  int version = 0;  // 13000 is CUDA 13.0
};
struct Nvrtc {
#define X(name, symbol, parameters) Result(*name) parameters = nullptr;
  CARAVAN_NVRTC(X)
#undef X
  int major = 0, minor = 0;
};

bool has_driver();  // is there a driver, whether it can be used or not?
// Both are opened by the first call. NoGpuError: the library is missing, too old, or does not work.
const Driver& driver();
const Nvrtc& nvrtc();

// Throws BackendError with what the driver says of the error.
void check(Result result, const std::string& what);

}  // namespace caravan::cuda
