// Loops as C99: what the loop printer shows, with types. One function a kernel, one entry that runs them in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

std::string to_c(const loop::Module& module);  // as one text

// As texts that can be compiled apart and linked, of at most so many functions each; the last one has the entries.
// Kernels that differ in nothing but their buffers are one function, here and in to_c.
std::vector<std::string> to_units(const loop::Module& module, size_t most);

}  // namespace caravan::codegen
