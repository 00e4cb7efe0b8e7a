// Prints loops as GNU C for this processor, statement by statement as in the dump: one function for each kernel, and an
// entry function that runs them in order (step.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

// Which entry functions a text has: those that run the program, or the one that times its kernels.
enum class Entries : uint8_t { runs, timed };

// The most calls of kernels in one generated function. The entry of a program of more kernels calls functions that make
// some of the calls each. The reason is that the C compiler inlines small kernels, and that its time grows faster than
// the length of the function: GCC 12 needed 6 s for 1,000 calls of a kernel with one sine, 256 s for 5,000.
inline constexpr size_t kMostCalls = 256;

// The beginning of every text, with or without the elementary functions, and with attention.h for such tiles or
// without.
std::string cpu_prelude(bool with_math, const loop::Attention* attention = nullptr);

std::string to_c(const loop::Module& module);  // the whole program as one text

// The program as texts that are compiled separately and linked; all take about the same time to compile, those that
// take longest come first, and few take longer than `milliseconds` (balance.h). One of them has the entry functions. A
// program that compiles quickly is one text. Kernels that differ only in their buffers share one function, here and in
// to_c.
inline constexpr double kMillisecondsPerUnit = 300;
struct Units {
  std::vector<std::string> texts;
  double milliseconds = 0;  // that the C compiler takes for all of them on one processor, about
};
Units to_units(const loop::Module& module, Entries entries = Entries::runs, double milliseconds = kMillisecondsPerUnit);

}  // namespace caravan::codegen
