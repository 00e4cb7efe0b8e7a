// Prints loops as C, statement by statement as in the dump: one function for each kernel, and an entry function that
// runs them in order.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "caravan/codegen/words.h"
#include "caravan/loop/loop.h"

namespace caravan::codegen {

// The argument of the entry functions. The generated C has the same struct under the name caravan_step.
struct Step {
  void* const* buffers = nullptr;  // by the program's BufferId; null for leaves that are not in memory
  const int64_t* symbols = nullptr;
  uint64_t seed = 0;
  // Runs chunk(step, 0 .. chunks-1) in any order and returns when all are done. Null: the generated code runs them
  // itself, one after the other.
  void (*parallel)(void* pool, void (*chunk)(const Step*, int64_t), const Step* step, int64_t chunks) = nullptr;
  void* pool = nullptr;
  // Runs a kernel that is a library call other than a copy. The generated C has these two in a struct
  // caravan_mesh_step, which begins with the fields above, and only if the program has such kernels.
  void (*library)(void* owner, int64_t kernel) = nullptr;
  void* owner = nullptr;
};

// void caravan_run(const caravan_step* step) runs the program once. States that were not updated in place are assigned
// at the end.
inline constexpr const char* kEntry = "caravan_run";

// void caravan_run_steps(const caravan_step* step, int64_t* symbols, const int64_t* ranges, int64_t steps) runs the
// program `steps` times, with step->symbols == symbols. After each run every symbol is incremented, modulo its range.
inline constexpr const char* kManySteps = "caravan_run_steps";

// void caravan_run_timed(const caravan_step* step, caravan_laps* laps) runs the program once and adds the time of
// kernel k to laps->nanoseconds[k].
struct Laps {  // the generated C has the same struct under the name caravan_laps
  int64_t (*now)() = nullptr;
  int64_t last = 0;
  int64_t* nanoseconds = nullptr;
};
inline constexpr const char* kTimedEntry = "caravan_run_timed";

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
std::vector<std::string> to_units(const loop::Module& module, Entries entries = Entries::runs,
                                  double milliseconds = kMillisecondsPerUnit);

// The kernels as C99 for any compiler, for a caller who writes the calls. The text has no vectors, no threads and no
// pragmas, except for one that only GCC sees (schedule/keep_loops.h). All its names at file scope start with `prefix`
// and an underscore. It calls functions of <math.h>, where the text of to_c has its own. The kernels must not need
// random bits.
struct PlainText {
  struct Call {
    std::string function;               // empty: a copy of so many bytes from the second buffer to the first
    std::string comments;               // set if this kernel shares the function of another one
    std::vector<ir::BufferId> buffers;  // the first arguments
    std::vector<int> symbols{};         // the others: values of the program's symbols
    int64_t copied_bytes = 0;
  };
  std::vector<std::string> functions;
  std::vector<Call> calls;        // in order
  std::set<std::string> helpers;  // helpers that the functions call, by their names in the prelude ("to_u8")
};
PlainText to_plain(const loop::Module& module, const std::string& prefix);
std::string plain_helpers(const std::set<std::string>& names, const std::string& prefix);  // their text

}  // namespace caravan::codegen
