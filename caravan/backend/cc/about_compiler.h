// The C compiler that the device `cpu` calls: where it is, and whether it works.
#pragma once

#include <string>

namespace caravan::cc {

struct CompilerFacts {
  std::string path;     // empty: not found
  std::string version;  // the first line of `--version`
  std::string problem;  // one line; empty if the self-test's loops were compiled, loaded and correct
  int loops = 0;        // number of loops in the self-test
  int wrong = 0;        // how many of them are wrong with the default flags
  std::string added;    // flags that make all of them right; empty if none was wrong
  bool works() const { return problem.empty(); }
};
CompilerFacts about_compiler();                     // tries it, without the cache
std::string to_string(const CompilerFacts& facts);  // a line

}  // namespace caravan::cc
