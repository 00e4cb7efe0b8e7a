// Loops as C99: what the loop printer shows, with types. One static function a kernel, one entry that runs them in
// order.
#pragma once

#include "caravan/loop/loop.h"

namespace caravan::codegen {

// void caravan_run(void* const* buffers, const int64_t* symbols, uint64_t seed), `buffers` by the program's BufferId
// (null for leaves that are not in memory). Assignments to state are made at the end, from scratch copies where needed.
std::string to_c(const loop::Module& module);

inline constexpr const char* kEntry = "caravan_run";

}  // namespace caravan::codegen
