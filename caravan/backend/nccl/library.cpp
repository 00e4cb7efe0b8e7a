#include "caravan/backend/nccl/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "caravan/base/error.h"

namespace caravan::nccl {

namespace {

constexpr int kOldest = 2700;  // 2.7, the first with messages from one device to another

Library opened() {
  const char* given = std::getenv("CARAVAN_NCCL");
  const std::vector<std::string> names =
      given && *given ? std::vector<std::string>{given} : std::vector<std::string>{"libnccl.so.2", "libnccl.so"};
  void* handle = nullptr;
  std::string problem;
  for (const std::string& name : names) {
    if ((handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))) break;
    if (problem.empty()) problem = dlerror();
  }
  if (!handle)
    throw BackendError("NCCL cannot be used: " + problem +
                       "; install it, or name the library in CARAVAN_NCCL (PyTorch has one: libnccl.so.2).");
  Library out;
#define X(name, symbol, result, parameters)                               \
  out.name = reinterpret_cast<decltype(out.name)>(dlsym(handle, symbol)); \
  if (!out.name)                                                          \
    throw BackendError("the library " + names[0] + " has no function " symbol "; NCCL 2.7 or newer is needed.");
  CARAVAN_NCCL(X)
#undef X
  out.version(&out.number);
  if (out.number < kOldest)
    throw BackendError("NCCL is of version " + version_text(out.number) + "; install 2.7 or newer.");
  return out;
}

}  // namespace

std::string version_text(int number) {
  constexpr int kNewNumbers = 20000;  // from 2.9 on, two digits for the second number
  const int unit = number >= kNewNumbers ? 10000 : 1000;
  return std::to_string(number / unit) + "." + std::to_string(number % unit / 100) + "." + std::to_string(number % 100);
}

const Library& library() {
  static const Library kLibrary = opened();
  return kLibrary;
}

void check(Result result, const std::string& what) {
  if (result == 0) return;
  const char* why = library().error_text(result);
  throw BackendError(what + ": " + (why ? why : "unknown error") + " (NCCL error " + std::to_string(result) + ").");
}

}  // namespace caravan::nccl
