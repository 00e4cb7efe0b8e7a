// Prints loops as plain C99, which any compiler takes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

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
