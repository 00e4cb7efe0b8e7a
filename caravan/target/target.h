// What the compiler knows of a machine. Passes take it; no number that describes a machine stands anywhere else.
// `doctor` prints it, and it is part of the key of compiled kernels.
#pragma once

#include <cstdint>
#include <string>

#include "caravan/ops/dtype.h"

namespace caravan {

// How loops are cut for a machine. Chosen by measurement; a file may say otherwise (tuning_file.h).
struct Tuning {
  // Partial sums of a long sum. A choice of bits, and so the same for every processor: a model gives the same numbers
  // on all of them.
  int64_t sum_lanes = 8;
  int64_t least_summed = 32;        // a shorter sum has no partial sums
  int64_t least_lanes = 8;          // a shorter innermost loop is not made a vector loop
  int64_t least_packed_reads = 16;  // of each element, or a copy in another order does not pay
  int64_t vector_bytes = 32;        // of the vectors that sums are kept in
  int64_t block_lanes = 16;         // iterations of a vector loop around other loops, at most
  int64_t block_rows = 4;           // iterations of an unrolled loop around it, at most
  // Vectors of sums in a block. A few are enough to hide the latency of an addition. A second round joins blocks up to
  // many, which hides that of memory too, even where the processor has not so many registers.
  int64_t few_sums = 8, many_sums = 24;
  // In scalar operations: a loop of less work runs on one thread; what a thread takes at a time. Handing over costs a
  // few hundred.
  int64_t parallel_work = 100'000, chunk_work = 25'000;
  int64_t most_chunks = 64;
  int64_t alignment = 64;  // bytes, of buffers: a cache line
  bool operator==(const Tuning&) const = default;
};

struct Target {
  enum class Kind : uint8_t {
    cpu,  // this processor: GNU C with vectors and threads
    c99,  // any processor: plain C, one thread
  };
  Kind kind = Kind::cpu;
  std::string processor;      // its name, as it calls itself
  int threads = 1;            // that a step may use
  int64_t vector_bytes = 16;  // of the widest vector register
  int vector_registers = 16;
  bool fma = false;                // multiplies and adds in one instruction; kernels never let it round once
  int64_t l1 = 0, l2 = 0, l3 = 0;  // bytes of data caches; 0: not known
  Tuning tuning{};

  // Numbers of this precision in a vector of sums.
  int64_t lanes(DType dtype) const { return tuning.vector_bytes / bytes(dtype); }
  bool operator==(const Target&) const = default;
};

Target host(int threads = 0);  // the processor that runs this, with its tuning file; 0: as many threads as it may use
Target plain_c();              // a C99 compiler for a processor that nobody knows
std::string to_string(const Target& target);  // a line

}  // namespace caravan
