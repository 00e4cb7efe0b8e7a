// A program that runs on a GPU: its compiled kernels, the memory of its buffers, and the recorded graphs of its steps.
#pragma once

#include <map>

#include "caravan/backend/cuda/cublas.h"
#include "caravan/backend/cuda/device.h"
#include "caravan/backend/cuda/gpu.h"
#include "caravan/backend/states.h"

namespace caravan::cuda {

// What a device and its executables share.
struct Shared {
  DeviceOptions options;
  std::shared_ptr<Gpu> gpu;
  backend::States<Memory> states;
  // Data on the GPU. The array is kept, so that its address stays its own.
  struct Data {
    Array array;
    Memory memory;
  };
  std::map<const void*, std::weak_ptr<const Data>> data;  // that programs use, by its address on the host

  std::unique_ptr<ProductLibrary> library;  // null until a program calls it

  Memory allocate(int64_t bytes) { return Memory(gpu, bytes); }
  // Equal data of several programs is on the GPU once, as long as one of them is there.
  std::shared_ptr<const Data> on_gpu(const Array& array) {
    std::erase_if(data, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<const Data>& known = data[array.data()];
    if (auto found = known.lock()) return found;
    const int64_t bytes = array.size() * caravan::bytes(array.dtype());
    std::shared_ptr<const Data> made(new Data{array, allocate(bytes)});
    gpu->upload(made->memory.address(), array.data(), bytes);
    known = made;
    return made;
  }
};

// Copies an array from the memory of the GPU.
Array to_array(const Gpu& gpu, const Shape& shape, DType dtype, Address from);

std::unique_ptr<backend::Executable> make_executable(std::shared_ptr<const plan::Plan> plan,
                                                     std::shared_ptr<Shared> shared);
// The same for a plan that is not made, if the cache has its step; else null.
std::unique_ptr<backend::Executable> restored_executable(std::shared_ptr<const plan::Plan> bare,
                                                         std::shared_ptr<Shared> shared);

}  // namespace caravan::cuda
