// Can the device `cpu` be had here? It can where the system's C compiler works, and is right.
#pragma once

#include <string>

#include "caravan/backend/cc/compile.h"

namespace caravan::cc {

// Compiles and loads the loops of self_test.h, or finds them in the cache, and runs them. Throws what `compile` throws,
// and WrongCompilerError where they are wrong with every set of flags.
void check_compiler(const CompilerOptions& options = {});
std::string compiler_problem(const CompilerOptions& options = {});  // its error, brief; empty: it works
// The first line of what went wrong, without its full stop, and of what the compiler said about it.
std::string brief(const BackendError& error);

std::string path_of(const std::string& program);  // on the PATH; empty: not there

}  // namespace caravan::cc
