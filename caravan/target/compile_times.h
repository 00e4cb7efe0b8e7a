// How long compilers take for generated text, so that a program is divided into texts that are compiled at the same
// time. These are numbers of no particular machine: the texts are part of the key in the cache of compiled code, and
// so they are the same on all.
#pragma once

#include <cstddef>

namespace caravan {

// Milliseconds of GCC 12 at -O3 on a processor of 3.6 GHz.
struct CompileTimes {
  double statement = 0.25, loop = 1;                 // by a fit to 400 kernels, each compiled alone
  double call = 0.6;                                 // of a kernel, in the entry function
  double attention = 310, attention_gradient = 520;  // the functions of codegen/prelude/attention.h, as measured
  double text = 300;  // that one of several texts takes at most, if none of its functions alone takes longer
  // The most calls of kernels in one generated function: the C compiler inlines small kernels, and its time grows
  // faster than the length of the function. It needed 6 s for 1,000 calls of a kernel with one sine, 256 s for 5,000.
  size_t most_calls = 256;
  // Characters of a text of CUDA C++ without its prelude: NVRTC takes about half a second for as many.
  size_t cuda_text = 24'000;
  size_t most_accumulations = 64;  // of a kernel, for the same reason
};
inline constexpr CompileTimes kCompileTimes;

// Seconds. A program that is compiled in less time does not begin on quickly compiled code (backend/cc/quick_start.h):
// it would begin about 0.3 seconds earlier at most, and its first steps would be slower.
inline constexpr double kLongCompilation = 0.75;

}  // namespace caravan
