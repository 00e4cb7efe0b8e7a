// Loops as C99: what the loop printer shows, with types. One static function a kernel, one entry that runs them in
// order.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::codegen {

// void caravan_run(void* const* buffers, const int64_t* symbols, uint64_t seed), `buffers` by the program's BufferId
// (null for leaves that are not in memory). Assignments to state are made at the end, from scratch copies where needed.
std::string to_c(const loop::Module& module);

inline constexpr const char* kEntry = "caravan_run";

// void caravan_run_steps(void* const* buffers, int64_t* symbols, const int64_t* ranges, int64_t steps, uint64_t seed):
// so many runs in a row; after each, every symbol goes up by one and starts again at 0 where its range ends.
inline constexpr const char* kManySteps = "caravan_run_steps";

}  // namespace caravan::codegen
