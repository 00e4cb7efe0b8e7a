// Can the device `cpu` be had here? It can where the system's C compiler works.
#pragma once

#include <string>

#include "caravan/backend/cc/compile.h"

namespace caravan::cc {

// Why no program can be compiled and loaded, in one line without a full stop; empty where a small one was (or is in the
// cache).
std::string compiler_problem(const CompilerOptions& options = {});

std::string path_of(const std::string& program);  // on the PATH; empty: not there

}  // namespace caravan::cc
