// Devices by name: a kind, and perhaps an ordinal. `cpu` is `cpu:0`.
#pragma once

#include <memory>
#include <string>

#include "caravan/base/error.h"
#include "caravan/runtime/context.h"

namespace caravan {

namespace cc {
struct CompilerFacts;
}

// Every kind of device that this library knows, whether it can be used here or not.
struct DeviceKind {
  std::string name;
  bool works = false;  // here
  std::string note;    // what it is, or why not
};
std::vector<DeviceKind> device_kinds(const cc::CompilerFacts& compiler);
std::vector<std::string> device_names();  // of the kinds that are built

// The device that the options name. ConfigError: a kind that is not built in, an ordinal that is not there.
std::unique_ptr<backend::Device> make_device(const ContextOptions& options);

// The machine for which a device has its plans, or for which those of the interpreter are shown. It need not be here:
// for a GPU that is not, it is an H200 with its library of products.
Target target_of(const ContextOptions& options, const std::string& device);

// Does `auto` take a GPU for a program of so many operations?
bool takes_gpu(int64_t operations);
// The GPU that `auto` takes for a program of so many operations, and why; if there is none, why that could not be used.
struct AutomaticGpu {
  std::unique_ptr<backend::Device> device;
  std::string why;  // a line without a full stop; empty: the program is small, or there is no driver of a GPU
};
AutomaticGpu automatic_gpu(const ContextOptions& options, int64_t operations);

// What `auto` begins with: `cpu`, and `interp` only where there is no C compiler at all. A run does not become another
// one because of a passing problem: a compiler that cannot be run now, or has no room to write, is a BackendError.
// Where the compiler has gone but the cache remembers it, `auto` stays `cpu`: what is in the cache runs, and what is
// not is a BackendError. Asked once a process.
struct AutomaticDevice {
  std::string name;
  std::string why_interpreted;  // one line without a full stop; empty: it is not
};
AutomaticDevice automatic_device(const std::string& cache = "");

}  // namespace caravan
