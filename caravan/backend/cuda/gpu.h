// One GPU: its context, its stream of work, and memory on it. All work of a device goes to one stream, in order.
#pragma once

#include <memory>
#include <utility>

#include "caravan/backend/cuda/driver.h"
#include "caravan/target/peaks.h"
#include "caravan/target/target.h"

namespace caravan::cuda {

class Gpu {
 public:
  explicit Gpu(int ordinal);  // NoGpuError if there is none of this number
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  void use() const;  // makes it the GPU of this thread
  const Driver& driver() const { return driver_; }
  StreamHandle* stream() const { return stream_; }
  const Target& target() const { return target_; }
  int64_t free_bytes() const;
  const Peaks& peaks() const { return peaks_; }  // by its clocks and units, not measured

  void upload(Address to, const void* from, int64_t bytes) const;        // waits until `from` may change
  void upload_later(Address to, const void* from, int64_t bytes) const;  // `from` is HostMemory; after all work before
  void clear(Address at, int64_t bytes) const;                           // sets them to 0, after all work before it
  void download(void* to, Address from, int64_t bytes) const;            // waits for all work before it
  // For all work. BackendError, which begins with `failed`, if the GPU has found an error in it.
  void wait(const std::string& failed =
                "the GPU reports an error in a kernel (CARAVAN_CUDA_DEBUG=1 finds out which one)") const;

 private:
  const Driver& driver_;
  ContextHandle* context_ = nullptr;
  StreamHandle* stream_ = nullptr;
  Target target_;
  Peaks peaks_;
};

// Memory on a GPU.
class Memory {
 public:
  Memory() = default;
  Memory(std::shared_ptr<Gpu> gpu, int64_t bytes);  // set to 0; BackendError if there is not enough
  Memory(Memory&& other) noexcept : gpu_(std::move(other.gpu_)), address_(std::exchange(other.address_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(gpu_, other.gpu_), std::swap(address_, other.address_);
    return *this;
  }
  ~Memory();

  Address address() const { return address_; }
  explicit operator bool() const { return address_ != 0; }

 private:
  std::shared_ptr<Gpu> gpu_;
  Address address_ = 0;
};

// Memory of this process from which the GPU can copy while the process goes on.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(const Gpu& gpu, int64_t bytes);
  int64_t* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(int64_t* memory) const;
  };
  std::unique_ptr<int64_t, Free> memory_;
};

}  // namespace caravan::cuda
