// The one way from a verified program to the kernels that run: all passes, in order, and the places of buffers in
// memory. What is compiled, shown, exported and measured is read from the same plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "caravan/loop/loop.h"
#include "caravan/plan/memory.h"
#include "caravan/target/target.h"

namespace caravan::plan {

struct Options {
  std::vector<std::string> off{};  // names of passes to leave out
  // The most bytes of the arena; 0: no limit. If the program needs more, values are computed again instead of kept
  // (optimize/rematerialise.h).
  int64_t memory_limit = 0;
};

struct LogEntry {
  std::string pass;         // or "lower"
  double milliseconds = 0;  // time of the pass, without verification
  bool changed = false;
  size_t count = 0;         // how many accumulations, or kernels, there are after it
  bool over_loops = false;  // `count` is of kernels
};

struct Plan {
  Target target;
  Options options;
  ir::Program program;     // as it was inferred
  bool made = false;       // by make_plan; if not, the plan has only what it would be made of, and the rest is empty
  ir::Program optimized;   // after the passes over accumulations
  loop::Module lowered;    // one kernel for each accumulation, before the passes over loops
  loop::Module scheduled;  // the kernels that run
  MemoryPlan memory;
  std::vector<LogEntry> log;
};

std::vector<std::string> pass_names();  // names for Options::off
void check(const Options& options);     // throws ConfigError if there is no pass of a name

// StateError if the program cannot be computed within the memory limit.
Plan make_plan(const ir::Program& program, const Target& target, const Options& options = {});
// The kernels of the plan's program before any optimisation: one for each accumulation that it was written with.
loop::Module unoptimized(const Plan& plan);

}  // namespace caravan::plan
