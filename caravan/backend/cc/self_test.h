// Does the C compiler compile loops correctly? Some compilers in use miscompile loops of kernels: GCC 12.2 at -O3
// computes wrong sums of arrays that are read backwards (schedule/keep_loops.h), and its SLP vectoriser drops a
// rounding (compile.h). Generated C avoids the known bugs; this test is for unknown ones.
//
// A few small loops are generated and compiled like those of any program, and run on whole numbers, for which every
// order of a sum gives the same value. If a result is wrong, the test is repeated with flags for less optimisation. The
// compiled loops are cached like any kernels, so that they are compiled once for each version of the compiler, set of
// flags and processor. Running them takes microseconds.
#pragma once

#include <string>
#include <vector>

#include "caravan/backend/cc/compile.h"

namespace caravan::cc {

struct SelfTest {
  int loops = 0;                   // number of loops
  std::vector<std::string> wrong;  // names of the loops that are wrong with the given flags
  std::vector<std::string> added;  // additional flags with which all loops are right; empty if none was wrong
  bool passed = false;             // all loops are right with the added flags
};

// Tests each compiler and set of flags once in a process. Throws BackendError if the loops cannot be compiled or
// loaded.
SelfTest self_test(const CompilerOptions& options);

// The compiler miscompiles loops with every set of flags.
class WrongCompilerError : public BackendError {
 public:
  using BackendError::BackendError;
};
[[noreturn]] void refuse(const SelfTest& test, const CompilerOptions& options);

// The options with flags that pass the test. Throws WrongCompilerError if there are none. If the loops cannot be
// compiled, returns the options unchanged: a program may be in the cache, or its own error is more helpful.
CompilerOptions tested(const CompilerOptions& options);

}  // namespace caravan::cc
