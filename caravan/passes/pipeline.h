// All passes, in order, with the reason for the order. From a verified program to loops.
#pragma once

#include <string>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::passes {

struct Options {
  std::vector<std::string> off;  // names of passes to leave out
};
struct LogEntry {
  std::string pass;         // or "lower"
  double milliseconds = 0;  // of the pass itself
  bool changed = false;
  size_t count = 0;         // of accumulations after it, or of kernels
  bool over_loops = false;  // kernels
};
struct Result {
  ir::Program program;   // after the passes over accumulations
  loop::Module lowered;  // as lowered, before the passes over loops
  loop::Module module;
  std::vector<LogEntry> log;
};

std::vector<std::string> names();  // of the passes that can be switched off
Result run(const ir::Program& program, const Options& options = {});

}  // namespace caravan::passes
