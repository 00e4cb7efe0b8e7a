// Does the C compiler compute what loops say? Compilers in use have faults that the loops of kernels meet: GCC 12.2
// sums rows that are read backwards wrongly at -O3 (schedule/keep_loops.h), and its SLP vectoriser leaves out a
// rounding (compile.h). Generated C keeps away from the faults that are known; this test is for those that are not.
//
// A few small loops become C as those of any program do, are compiled with the flags that programs are compiled with,
// and run on whole numbers, where every order of a sum gives the same value. Where a loop is wrong, the flags are tried
// with less optimisation. The compiled loops are in the cache of kernels like any others, so the compiler is called
// once for each of its versions, sets of flags and processors; running them takes microseconds.
#pragma once

#include <string>
#include <vector>

#include "caravan/backend/cc/compile.h"

namespace caravan::cc {

struct SelfTest {
  int loops = 0;                   // that were tried
  std::vector<std::string> wrong;  // their names, with the flags that were asked for
  std::vector<std::string> added;  // flags with which all are right; none where nothing was wrong
  bool passed = false;             // with these flags
};

// Each compiler and set of flags is tried once in a process. Throws BackendError where the loops cannot be compiled or
// loaded.
SelfTest self_test(const CompilerOptions& options);

// The compiler gets loops wrong with every set of flags.
class WrongCompilerError : public BackendError {
 public:
  using BackendError::BackendError;
};
[[noreturn]] void refuse(const SelfTest& test, const CompilerOptions& options);

// The options with the flags that pass. Throws WrongCompilerError where there are none. Where the loops cannot be
// compiled, the options stay as they are: a program may be in the cache, or its own error says more.
CompilerOptions tested(const CompilerOptions& options);

}  // namespace caravan::cc
