// A driver of NVIDIA for tests on machines that have none. It has one GPU, on which nothing runs. Its memory is that of
// the process, so that copies are real. FAKE_GPU says what is wrong with it: `old` (a driver for CUDA 11.8), `none`
// (there is no GPU), `full` (no process can begin to use it), `small` (it has 1,000 bytes free) or `broken` (the third
// kernel reads an address that is not its own).
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "functions.h"

namespace caravan::cuda {

namespace {

constexpr size_t kMemory = 80'000'000'000;
constexpr Result kOutOfMemory = 2, kIllegalAddress = 700;
constexpr int kFirstBroken = 3;
int launched = 0;  // kernels

bool is(std::string_view fault) {
  const char* given = std::getenv("FAKE_GPU");
  return given && given == fault;
}

}  // namespace

Result fake_driver_version(int* version) { return *version = is("old") ? 11080 : 12040, 0; }
Result fake_error_text(Result, const char** text) { return *text = "a fault of the fake driver", 0; }
Result fake_device_count(int* count) { return *count = is("none") ? 0 : 1, 0; }
Result fake_device_name(char* name, int length, DeviceNumber) {
  return std::strncpy(name, "Fake GPU", size_t(length)), 0;
}
Result fake_device_attribute(int* value, int, DeviceNumber) { return *value = 9, 0; }
Result fake_device_memory(size_t* bytes, DeviceNumber) { return *bytes = kMemory, 0; }
Result fake_context_retain(ContextHandle** context, DeviceNumber) {
  *context = nullptr;
  return is("full") ? kOutOfMemory : 0;
}
Result fake_launch(const LaunchConfig*, FunctionHandle*, void**, void**) { return ++launched, 0; }
Result fake_stream_wait(StreamHandle*) { return is("broken") && launched >= kFirstBroken ? kIllegalAddress : 0; }
Result fake_memory_info(size_t* free, size_t* total) {
  *free = is("small") ? 1000 : kMemory, *total = kMemory;
  return 0;
}

Result fake_allocate(Address* address, size_t bytes) {
  return *address = reinterpret_cast<Address>(std::calloc(bytes, 1)), 0;
}
Result fake_free(Address address) { return std::free(reinterpret_cast<void*>(address)), 0; }
Result fake_allocate_host(void** memory, size_t bytes) { return *memory = std::calloc(bytes, 1), 0; }
Result fake_free_host(void* memory) { return std::free(memory), 0; }
Result fake_copy_to_device(Address to, const void* from, size_t bytes, StreamHandle*) {
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
}
Result fake_copy_to_host(void* to, Address from, size_t bytes, StreamHandle*) {
  return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), 0;
}
Result fake_copy_on_device(Address to, Address from, size_t bytes, StreamHandle*) {
  return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), 0;
}
Result fake_set_bytes(Address at, unsigned char value, size_t bytes, StreamHandle*) {
  return std::memset(reinterpret_cast<void*>(at), value, bytes), 0;
}

}  // namespace caravan::cuda
