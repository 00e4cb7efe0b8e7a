// The one way from a verified program to the kernels that run: all passes, in order, and where everything lies.
// What is compiled, shown, exported and measured is read from the same plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caravan/loop/loop.h"
#include "caravan/plan/memory.h"
#include "caravan/target/target.h"

namespace caravan::plan {

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

struct Plan {
  Target target;
  ir::Program program;     // as it was inferred
  ir::Program optimized;   // after the passes over accumulations
  loop::Module lowered;    // one kernel for each accumulation, before the passes over loops
  loop::Module scheduled;  // the kernels that run
  MemoryPlan memory;
  std::vector<LogEntry> log;
};

std::vector<std::string> pass_names();  // of those that can be switched off
void check(const Options& options);     // ConfigError: there is no such pass

Plan make_plan(const ir::Program& program, const Target& target, const Options& options = {});

}  // namespace caravan::plan
