// What the device `auto` is: what a Context begins with, and the GPU that its first program may move it to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "caravan/backend/backend.h"
#include "caravan/runtime/context.h"

namespace caravan {

// What `auto` begins with: `cpu`, and `interp` only where there is no C compiler at all, or one that compiles wrongly.
// A run does not become another one because of a passing problem: a compiler that cannot be run now, or has no room to
// write, is a BackendError. Where the compiler has gone but the cache remembers it, `auto` stays `cpu`: what is in the
// cache runs, and what is not is a BackendError.
struct AutomaticDevice {
  std::string name;
  std::string why_interpreted;  // one line without a full stop; empty: it is not
};
// Whether the compiler has passed its self-test, which takes a tenth of a second where its loops are not in the cache,
// or whether it is only known that it can be run. A Context begins with the latter: the device `cpu` runs the self-test
// while it compiles the first program.
enum class Compiler : uint8_t { can_be_run, passed_self_test };
AutomaticDevice automatic_device(const std::string& cache, Compiler compiler);

// Does `auto` take a GPU for a program of so many operations?
bool takes_gpu(int64_t operations);
// The GPU that `auto` takes for a program of so many operations, and why; if there is none, why that could not be used.
struct AutomaticGpu {
  std::unique_ptr<backend::Device> device;
  std::string why;  // a line without a full stop; empty: the program is small, or there is no driver of a GPU
};
AutomaticGpu automatic_gpu(const ContextOptions& options, int64_t operations);

}  // namespace caravan
