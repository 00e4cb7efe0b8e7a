#include "caravan/backend/cuda/driver.h"

#include <cstdlib>
#include <vector>

#include "caravan/backend/cuda/open_library.h"

namespace caravan::cuda {

namespace {

constexpr int kOldestDriver = 12000,
              kOldestNvrtc = 12;  // cuGraphInstantiateWithFlags, and code for compute capability 9.0

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void* driver_library() {
  static void* const library = open_first({"libcuda.so.1", "libcuda.so"});
  return library;
}

Driver open_driver() {
  void* library = driver_library();
  if (!library)
    throw NoGpuError("there is no driver of NVIDIA (libcuda.so.1); a GPU needs one, of version 525 or newer.");
  Driver out;
#define X(name, symbol, parameters) find_function(library, symbol, out.name, "the driver of NVIDIA (libcuda.so.1)");
  CARAVAN_CUDA_DRIVER(X)
#undef X
  out.driver_version(&out.version);
  if (out.version < kOldestDriver)
    throw NoGpuError("the driver of NVIDIA is for CUDA " + version_text(out.version) + "; install one for CUDA " +
                     version_text(kOldestDriver) + " or newer.");
  if (const Result failed = out.init(0)) {
    const char* why = nullptr;
    out.error_text(failed, &why);
    throw NoGpuError(std::string("the driver of NVIDIA does not start: ") + (why ? why : "unknown error") + ".");
  }
  return out;
}

Nvrtc functions_of(void* library) {
  Nvrtc out;
#define X(name, symbol, parameters) find_function(library, symbol, out.name, "CUDA's run-time compiler (libnvrtc)");
  CARAVAN_NVRTC(X)
#undef X
  out.version(&out.major, &out.minor);
  if (out.major < kOldestNvrtc)
    throw NoGpuError("CUDA's run-time compiler is of version " + std::to_string(out.major) + "." +
                     std::to_string(out.minor) + "; install CUDA " + std::to_string(kOldestNvrtc) + " or newer.");
  return out;
}

Nvrtc open_nvrtc() {
  const char* given = std::getenv("CARAVAN_NVRTC");
  const bool named = given && *given;
  void* library = open_first(named ? std::vector<std::string>{given} : toolkit_names("CARAVAN_NVRTC", "libnvrtc.so"));
  if (!library && named)
    throw NoGpuError(std::string("CARAVAN_NVRTC names the run-time compiler ") + given + ", which cannot be opened.");
  if (!library)
    throw NoGpuError(
        "CUDA's run-time compiler (libnvrtc) was not found; install CUDA 12 or 13, or name the library in "
        "CARAVAN_NVRTC.");
  return functions_of(library);
}

}  // namespace

std::vector<std::string> toolkit_names(const char* variable, const std::string& library) {
  std::vector<std::string> out;
  if (const char* given = std::getenv(variable); given && *given) out.emplace_back(given);
  for (const char* version : {"13", "12"}) out.push_back(library + "." + version);
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(home); folder && *folder)
      out.push_back(std::string(folder) + "/lib64/" + library);
  out.push_back("/usr/local/cuda/lib64/" + library);
  return out;
}

bool has_driver() { return driver_library() != nullptr; }
const Driver& driver() {
  static const Driver opened = open_driver();
  return opened;
}
const Nvrtc& nvrtc() {
  static const Nvrtc opened = open_nvrtc();
  return opened;
}

void check(Result result, const std::string& what) {
  if (result == 0) return;
  const char* why = nullptr;
  driver().error_text(result, &why);
  // From these on the driver refuses all calls of this process.
  constexpr int kIllegalAddress = 700, kFirstOfMany = 714, kLastOfMany = 719;
  const bool lost = result == kIllegalAddress || (result >= kFirstOfMany && result <= kLastOfMany);
  throw BackendError(what + ": " + (why ? why : "unknown error") + " (CUDA error " + std::to_string(result) + ")." +
                     (lost ? " This process cannot use the GPU any more; start it again, from a checkpoint." : ""));
}

}  // namespace caravan::cuda
