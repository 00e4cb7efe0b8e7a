// A GPU of NVIDIA as a device: programs become CUDA C++, which the driver's run-time compiler turns into code, and
// states are kept in the memory of the GPU in their own precision. A step is one launch of a recorded graph of kernels,
// or, if the program is small, a part of one launch of many steps.
#pragma once

#include <functional>

#include "caravan/backend/backend.h"
#include "caravan/backend/exchange.h"

namespace caravan::cuda {

struct DeviceOptions {
  uint64_t seed = 0;
  int ordinal = 0;    // which GPU
  std::string cache;  // folder of compiled kernels; empty: the user's
  bool tf32 = false;  // products of f32 by tensor cores, with factors rounded to 10 bits of fraction
  std::shared_ptr<backend::Exchange> exchange{};         // if the device is one of a mesh
  std::function<void(int done, int total)> compiling{};  // called as the texts of a program are compiled
};
// NoGpuError: there is no such GPU, or it cannot be used.
std::unique_ptr<backend::Device> make_device(const DeviceOptions& options);

// What was found on this machine. Never throws.
struct Facts {
  int count = 0;        // of GPUs that can be used
  bool driver = false;  // is there a driver, whether it can be used or not?
  std::string note;     // the GPUs and the versions, or why there is none, in a line without a full stop
};
const Facts& facts();
// Which library computes large products, or why there is none, in words without a full stop. It opens the library,
// which takes a moment.
std::string library_note();

}  // namespace caravan::cuda
