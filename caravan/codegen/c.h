// Prints loops as GNU C for this processor, statement by statement as in the dump: one function for each kernel, and an
// entry function that runs them in order (step.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "caravan/loop/loop.h"
#include "caravan/target/compile_times.h"

namespace caravan::codegen {

// Which entry functions a text has: those that run the program, or the one that times its kernels.
enum class Entries : uint8_t { runs, timed };

// The whole program as one text. The entry function of a program of more kernels than CompileTimes::most_calls calls
// functions that make some of the calls each.
std::string to_c(const loop::Module& module);

// The program as texts that are compiled separately and linked; all take about the same time to compile, those that
// take longest come first, and few take longer than `milliseconds` (balance.h). One of them has the entry functions. A
// program that compiles quickly is one text. Kernels that differ only in their buffers share one function, here and in
// to_c.
struct Units {
  std::vector<std::string> texts;
  double milliseconds = 0;  // that the C compiler takes for all of them on one processor, about
};
Units to_units(const loop::Module& module, Entries entries = Entries::runs, double milliseconds = kCompileTimes.text);

}  // namespace caravan::codegen
