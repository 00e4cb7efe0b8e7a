// Loops as C: what the dump shows, in the words of C. One function a kernel, one entry that runs them in order.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "caravan/codegen/words.h"
#include "caravan/loop/loop.h"

namespace caravan::codegen {

// What the entries are given; the generated C has the same struct under the name caravan_step.
struct Step {
  void* const* buffers = nullptr;  // by the program's BufferId; null for leaves that are not in memory
  const int64_t* symbols = nullptr;
  uint64_t seed = 0;
  // Runs chunk(step, 0 .. chunks-1) in any order and returns when all are done; null: one after another, in place.
  void (*parallel)(void* pool, void (*chunk)(const Step*, int64_t), const Step* step, int64_t chunks) = nullptr;
  void* pool = nullptr;
};

// void caravan_run(const caravan_step* step): assignments to state are made at the end, from copies where needed.
inline constexpr const char* kEntry = "caravan_run";

// void caravan_run_steps(const caravan_step* step, int64_t* symbols, const int64_t* ranges, int64_t steps): so many
// runs in a row, with step->symbols == symbols; after each, every symbol goes up by one and starts again at 0 where its
// range ends.
inline constexpr const char* kManySteps = "caravan_run_steps";

// void caravan_run_timed(const caravan_step* step, caravan_laps* laps): a run in which the time of each kernel is added
// up, in the order of the module's kernels.
struct Laps {  // the generated C has the same struct under the name caravan_laps
  int64_t (*now)() = nullptr;
  int64_t last = 0;
  int64_t* nanoseconds = nullptr;
};
inline constexpr const char* kTimedEntry = "caravan_run_timed";

// Which entries a text has: those that run a step, or the one that times it.
enum class Entries : uint8_t { runs, timed };

// Calls of kernels in one function of the text; a program of more kernels has functions that make some of its calls
// each. The C compiler puts small kernels in place of their calls and takes more than linear time over the function
// that this makes: GCC 12 needed 6 s for 1,000 calls of a kernel with one sine, 256 s for 5,000.
inline constexpr size_t kMostCalls = 256;

std::string cpu_prelude(bool with_math);  // what every text begins with, with or without the elementary functions

std::string to_c(const loop::Module& module);  // as one text

// As texts that can be compiled apart and linked, each of at most so many functions and of about equal cost
// (balance.h); the last one has the entries. A program that is compiled quickly is one text.
// Kernels that differ in nothing but their buffers are one function, here and in to_c.
inline constexpr size_t kFunctionsPerUnit = 16;
std::vector<std::string> to_units(const loop::Module& module, Entries entries = Entries::runs,
                                  size_t most = kFunctionsPerUnit);

// The kernels alone, for a text that calls them itself: C99 of any compiler, without vectors and threads, and
// without pragmas but for one that GCC alone sees (schedule/keep_loops.h). At file scope all its names start with
// `prefix` and an underscore. It calls <math.h>, where to_c has functions of its own. The kernels must not need symbols
// or random bits.
struct PlainText {
  struct Call {
    std::string function;
    std::string comments;               // of a kernel that another one's function computes
    std::vector<ir::BufferId> buffers;  // the arguments
  };
  std::vector<std::string> functions;
  std::vector<Call> calls;        // in order
  std::set<std::string> helpers;  // that the functions call, by their names in the prelude ("to_u8")
};
PlainText to_plain(const loop::Module& module, const std::string& prefix);
std::string plain_helpers(const std::set<std::string>& names, const std::string& prefix);  // their text

}  // namespace caravan::codegen
