// Runs the collectives of a plan on a GPU that is a device of a mesh. What is sent is copied to memory of the process,
// where the communicator finds it, and what arrives is copied back, unless the communicator works in the memory of
// GPUs. Both are done on a stream of its own by the thread of the exchange, while the GPU runs other kernels.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "caravan/backend/cuda/gpu.h"
#include "caravan/backend/exchange.h"

namespace caravan::cuda {

class GpuExchange {
 public:
  GpuExchange(std::shared_ptr<Gpu> gpu, std::shared_ptr<backend::Exchange> exchange, const loop::Module& module);
  ~GpuExchange();
  GpuExchange(const GpuExchange&) = delete;
  GpuExchange& operator=(const GpuExchange&) = delete;

  // Is the call a collective, or a wait for one?
  static bool runs(const loop::LibraryCall& call);
  // Work that is put into the GPU's stream before this is done before it, and what comes after a wait, after it.
  void run(size_t kernel, const std::vector<Address>& buffers);

 private:
  struct Events {
    EventHandle *computed = nullptr, *arrived = nullptr;
  };
  void copy(const std::vector<ir::BufferId>& which, bool to_host) const;

  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<backend::Exchange> exchange_;
  const loop::Module& module_;
  const bool on_gpu_;
  StreamHandle* stream_ = nullptr;
  std::map<size_t, Events> events_;                  // by kernel that is a collective
  std::vector<HostMemory> memory_;                   // of the process
  std::vector<void*> at_;                            // by buffer: where the communicator finds it
  const std::vector<Address>* on_device_ = nullptr;  // by buffer
};

}  // namespace caravan::cuda
