// The kernels of a module as CUDA C++, which the run-time compiler of CUDA (NVRTC) turns into code for a GPU. The
// kernels must be mapped to groups of threads (schedule/map_to_grid.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

// How a step is run.
enum class CudaForm : uint8_t {
  launches,   // a launch for the kernels of a stage together
  separate,   // a launch for each kernel, so that it can be measured
  one_block,  // one launch of one block of threads runs all kernels, one after the other, for many steps
};

struct CudaText {
  // One launch of a step. Its arguments are pointers to buffers and to the values of symbols, in the order in which its
  // kernels use them, each kernel's buffers first, and at the end the seed, if the kernels have streams of random bits.
  struct Launch {
    std::vector<size_t> kernels;  // which ones of the module
    int stage = -1;               // launches of one stage may run at the same time
    std::string function;         // empty: the kernel is a library call
    size_t text = 0;              // which of the texts has the function
    struct Argument {
      ir::BufferId buffer = -1;
      int symbol = -1;  // if it is not a buffer
    };
    std::vector<Argument> arguments{};
    bool has_seed = false;
    int threads = 0;  // of a block
    int64_t blocks = 0;
    int64_t shared_bytes = 0;  // of a block
  };
  std::vector<std::string> texts;  // to be compiled separately; the last one has the functions below
  std::vector<Launch> launches;    // in order; of the form `one_block` there are none
  int64_t shared_bytes = 0;        // of the block of the form `one_block`
  int threads = 0;                 // of that block
};
CudaForm form_of(const loop::Module& module);  // how it runs, as the schedule has decided
CudaText to_cuda(const loop::Module& module, CudaForm form);

// extern "C" __global__ void caravan_steps(caravan_buffers buffers, int64_t* symbols, const int64_t* ranges,
//                                          int64_t steps, uint64_t seed)
// runs `steps` steps in one block. After each, every symbol is incremented, modulo its range. The first argument is the
// addresses of all buffers of the module, of which there may be `Gpu::most_buffers`.
inline constexpr const char* kCudaSteps = "caravan_steps";
// extern "C" __global__ void caravan_next(int64_t* symbols, const int64_t* ranges, int64_t count, int64_t copies,
//                                         int64_t steps)
// adds `steps` to each of `count` symbols, modulo its range, in all copies of them. A range of 0 has no end.
inline constexpr const char* kCudaNext = "caravan_next";

}  // namespace caravan::codegen
