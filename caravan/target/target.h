// What the compiler knows of a machine. Passes receive it as an argument and contain no numbers of a machine
// themselves. The command `doctor` prints it. The key of compiled kernels has the processor and the text that was made
// for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "caravan/ops/dtype.h"
#include "caravan/target/gpu.h"
#include "caravan/target/tuning.h"

namespace caravan {

// Bytes. Small collectives of devices are collected until they have so many: a call takes time whatever it sends.
inline constexpr int64_t kCombinedBytes = 256 << 10;
inline constexpr int64_t kShortestVector = 16;        // bytes; no processor in use has shorter vector registers
inline constexpr size_t kHugePage = size_t(2) << 20;  // bytes, on x86-64 and on most other processors

struct Target {
  enum class Kind : uint8_t {
    cpu,   // this processor, through GNU C with vectors and threads
    c99,   // any processor, through plain C99 with one thread
    cuda,  // a GPU, through CUDA C++
  };
  Kind kind = Kind::cpu;
  std::string processor;      // the model name in /proc/cpuinfo
  int threads = 1;            // how many threads a run of a program may use
  int64_t vector_bytes = 16;  // of the widest vector register; 4 in a language without vectors
  int vector_registers = 16;
  int operand_registers = 2;  // of these, for the factors of a product; the others hold sums
  // The processor has fused multiply-add. Only contractions use it, where the order of their sums says so.
  bool fma = false;
  // Bytes of data caches; 0: not known. For measurements (peaks.h), and for what a product prefetches
  // (schedule/tile_contractions.h); for all else passes use the numbers of `tuning`.
  int64_t l1 = 0, l2 = 0, l3 = 0;
  Tuning tuning{};
  Gpu gpu{};

  // How many numbers of this precision a vector of accumulators holds, and how many the widest register. Without
  // vectors it is 1.
  int64_t lanes(DType dtype) const { return std::max<int64_t>(1, tuning.vector_bytes / bytes(dtype)); }
  int64_t most_lanes(DType dtype) const { return std::max<int64_t>(1, vector_bytes / bytes(dtype)); }
  bool operator==(const Target&) const = default;
};

Target host(int threads = 0);  // this machine, with its tuning file; threads = 0: all that the process may use
// Of x86-64, beside SSE, which all of these processors have.
struct Instructions {
  bool avx = false, avx512 = false, fma = false;
};
// The target if a program may use no other instructions. Built-in tuning numbers become those for such vectors.
Target with_at_most(const Target& target, const Instructions& allowed);
Target plain_c();                                                      // a C99 compiler for an unknown processor
Target gpu_target(const Gpu& gpu = {}, const std::string& name = "");  // a GPU of NVIDIA
std::string to_string(const Target& target);                           // a line

}  // namespace caravan
