// Compiles CUDA C++ to code for one kind of GPU, by NVRTC in this process. What was compiled is kept in the cache of
// compiled kernels. It needs no GPU.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "caravan/base/error.h"

namespace caravan::cuda {

// Does the user look for an error (CARAVAN_CUDA_DEBUG=1)? Then code is compiled for cuda-gdb, without optimisation, and
// each kernel is launched alone.
bool debugging();

struct Compiled {
  std::vector<std::string> codes;    // a cubin for each text
  std::vector<std::string> keys;     // under which the cache keeps them
  bool from_cache = false;           // true iff nothing had to be compiled
  std::vector<std::string> sources;  // paths of the texts that are kept
};

struct CompileOptions {
  std::string cache{};                                  // a folder; empty: the user's
  std::vector<std::string> more{};                      // options of the compiler, after our own
  std::function<void(int done, int total)> progress{};  // called as texts are compiled, from any thread
};
// Compiles the texts in parallel, on the processors that this process may use. `compute` is the compute capability: 90
// for 9.0. Throws NoGpuError if there is no compiler, and backend::RefusedTextError if the compiler refuses a
// text.
Compiled compile(const std::vector<std::string>& texts, int compute, const CompileOptions& options = {});

// The key under which the cache keeps the code of a text. Throws NoGpuError if there is no compiler.
std::string key_of(const std::string& text, int compute);

// What was compiled for an origin, whatever that is, and a note about it. So a program that was compiled before is
// found without its texts being made.
struct Kept {
  Compiled compiled;
  std::string note;
};
std::optional<Kept> find_kept(const std::string& origin, int compute, const CompileOptions& options);
// Does nothing where the cache cannot be written.
void keep(const std::string& origin, int compute, const Compiled& compiled, const std::string& note,
          const CompileOptions& options);

}  // namespace caravan::cuda
