// The C compiler that the device `cpu` calls: where it is, and whether it works.
#pragma once

#include <string>

namespace caravan::cc {

struct CompilerFacts {
  std::string path;     // empty: not found
  std::string version;  // the first line of `--version`
  std::string problem;  // one line; empty where small loops were compiled, loaded and right
  int loops = 0;        // of that test
  int wrong = 0;        // of them, with the flags that are meant
  std::string added;    // flags with which all are right; empty where none was wrong
  bool works() const { return problem.empty(); }
};
CompilerFacts about_compiler();                     // tries it, without the cache
std::string to_string(const CompilerFacts& facts);  // a line

}  // namespace caravan::cc
