// How generated code is called: the functions that a text of to_c has, and their arguments.
#pragma once

#include <cstdint>

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

}  // namespace caravan::codegen
