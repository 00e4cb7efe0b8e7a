// A driver of NVIDIA for tests on machines that have none. It has one GPU, on which nothing runs. FAKE_GPU says what is
// wrong with it: `old` (a driver for CUDA 11.8), `none` (there is no GPU), `full` (no process can begin to use it) or
// `small` (it has 1,000 bytes free).
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "functions.h"

namespace caravan::cuda {

namespace {

constexpr size_t kMemory = 80'000'000'000;
constexpr Result kOutOfMemory = 2;

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
Result fake_memory_info(size_t* free, size_t* total) {
  *free = is("small") ? 1000 : kMemory, *total = kMemory;
  return 0;
}

}  // namespace caravan::cuda
