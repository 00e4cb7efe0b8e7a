#include "caravan/backend/cuda/gpu.h"

#include <algorithm>

namespace caravan::cuda {

namespace {

// Numbers of device attributes in the driver's interface.
constexpr int kClock = 13, kMultiprocessors = 16, kMemoryClock = 36, kMemoryBits = 37, kL2Bytes = 38,
              kComputeMajor = 75, kComputeMinor = 76, kSharedBytes = 97;
constexpr unsigned kNonBlocking = 1;  // the stream does not wait for the default stream

int attribute(const Driver& driver, int which, DeviceNumber device) {
  int out = 0;
  check(driver.device_attribute(&out, which, device), "the GPU does not say what it is");
  return out;
}

}  // namespace

Gpu::Gpu(int ordinal) : driver_(cuda::driver()) {
  int count = 0;
  check(driver_.device_count(&count), "the GPUs cannot be counted");
  if (ordinal >= count)
    throw NoGpuError(count == 0 ? "there is no GPU on this machine."
                                : "there is no GPU " + std::to_string(ordinal) +
                                      "; the last one is cuda:" + std::to_string(count - 1) + ".");
  DeviceNumber device = 0;
  check(driver_.device_get(&device, ordinal), "the GPU cannot be used");
  char name[256] = "";
  size_t bytes = 0;
  check(driver_.device_name(name, sizeof name, device), "the GPU does not say its name");
  check(driver_.device_memory(&bytes, device), "the GPU does not say how much memory it has");
  const int compute = 10 * attribute(driver_, kComputeMajor, device) + attribute(driver_, kComputeMinor, device);
  caravan::Gpu gpu = gpu_of(compute, attribute(driver_, kMultiprocessors, device));
  gpu.memory = int64_t(bytes);
  gpu.shared_bytes = attribute(driver_, kSharedBytes, device);
  if (compute < gpu.all_precisions)
    throw NoGpuError(std::string("the GPU ") + name + " has compute capability " + std::to_string(compute / 10) + "." +
                     std::to_string(compute % 10) + "; 8.0 or newer is needed.");
  target_ = gpu_target(gpu, name);
  const double hertz = 1e3 * attribute(driver_, kClock, device),
               bandwidth = 2e3 * attribute(driver_, kMemoryClock, device) * attribute(driver_, kMemoryBits, device) / 8;
  peaks_.flops = 2 * gpu.f32_units * double(gpu.multiprocessors) * hertz;
  peaks_.memory = {{attribute(driver_, kL2Bytes, device), gpu.l2_rate * bandwidth}, {gpu.memory, bandwidth}};
  if (driver_.context_retain(&context_, device) != 0)
    throw NoGpuError(std::string("the GPU ") + name + " cannot be used: it is full, or reserved by another process.");
  use();
  check(driver_.stream_create(&stream_, kNonBlocking), "the GPU gives no stream");
}
// The context of a GPU belongs to the process, and is left to the driver.
Gpu::~Gpu() {
  if (stream_ && driver_.context_set(context_) == 0) driver_.stream_destroy(stream_);
}

void Gpu::use() const { check(driver_.context_set(context_), "the GPU cannot be used by this thread"); }
int64_t Gpu::free_bytes() const {
  size_t free = 0, total = 0;
  use();
  check(driver_.memory_info(&free, &total), "the GPU does not say how much memory is free");
  return int64_t(free);
}
void Gpu::wait(const std::string& failed) const {
  use();
  check(driver_.stream_wait(stream_), failed);
}
void Gpu::upload(Address to, const void* from, int64_t bytes) const {
  upload_later(to, from, bytes);
  if (bytes > 0) wait();
}
void Gpu::upload_later(Address to, const void* from, int64_t bytes) const {
  if (bytes == 0) return;
  use();
  check(driver_.copy_to_device(to, from, size_t(bytes), stream_), "data cannot be copied to the GPU");
}
void Gpu::clear(Address at, int64_t bytes) const {
  if (bytes == 0) return;
  use();
  check(driver_.set_bytes(at, 0, size_t(bytes), stream_), "memory of the GPU cannot be cleared");
}
void Gpu::download(void* to, Address from, int64_t bytes) const {
  wait();
  if (bytes == 0) return;
  check(driver_.copy_to_host(to, from, size_t(bytes), stream_), "data cannot be copied from the GPU");
  wait();
}

Memory::Memory(std::shared_ptr<Gpu> gpu, int64_t bytes) : gpu_(std::move(gpu)) {
  gpu_->use();
  const size_t n = size_t(std::max<int64_t>(bytes, 1));
  if (gpu_->driver().allocate(&address_, n) != 0) {
    address_ = 0;
    throw BackendError("the GPU has no room for " + std::to_string(n) + " bytes; " +
                       std::to_string(gpu_->free_bytes()) + " are free.");
  }
  gpu_->clear(address_, int64_t(n));
}
HostMemory::HostMemory(const Gpu& gpu, int64_t bytes) {
  gpu.use();
  void* memory = nullptr;
  check(gpu.driver().allocate_host(&memory, size_t(bytes)), "the driver gives no memory to copy from");
  memory_.reset(static_cast<int64_t*>(memory));
}
void HostMemory::Free::operator()(int64_t* memory) const { cuda::driver().free_host(memory); }

Memory::~Memory() {
  if (!address_) return;
  try {
    gpu_->use();
    gpu_->driver().free(address_);
  } catch (const BackendError&) {  // after an error of the GPU nothing can be freed
  }
}

}  // namespace caravan::cuda
