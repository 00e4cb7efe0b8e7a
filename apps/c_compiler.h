// The C compiler that the device `cpu` calls: where it is, and whether it works.
#pragma once

#include <string>

namespace caravan::app {

struct CCompiler {
  std::string path;     // empty: not found
  std::string version;  // the first line of `--version`
  std::string problem;  // one line; empty where a small program was compiled and loaded
  bool works() const { return problem.empty(); }
};
CCompiler find_c_compiler();

}  // namespace caravan::app
