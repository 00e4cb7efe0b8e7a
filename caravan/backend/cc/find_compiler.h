// Is the device `cpu` available? It is if the system's C compiler works and compiles correctly.
#pragma once

#include <string>

#include "caravan/backend/cc/compile.h"

namespace caravan::cc {

// Runs the self-test (self_test.h). Throws what `compile` throws, and WrongCompilerError if the loops are wrong with
// every set of flags.
void check_compiler(const CompilerOptions& options = {});
std::string compiler_problem(const CompilerOptions& options = {});  // its error in short; empty if it works

std::string path_of(const std::string& program);  // on the PATH; empty: not there

}  // namespace caravan::cc
