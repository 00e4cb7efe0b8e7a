// All passes, in their order: what turns a program into the kernels that run. passes.cpp has the list, with the reason
// for the place of each.
#pragma once

#include <string>
#include <vector>

#include "caravan/loop/loop.h"
#include "caravan/optimize/rematerialise.h"
#include "caravan/target/target.h"

namespace caravan::plan {

struct Options {
  std::vector<std::string> off{};  // names of passes to leave out
  // The most bytes of the arena; 0: no limit. If the program needs more, values are computed again instead of kept
  // (optimize/rematerialise.h).
  int64_t memory_limit = 0;
};
std::vector<std::string> pass_names();  // names for Options::off
void check(const Options& options);     // throws ConfigError if no pass of a name can be left out

struct LogEntry {
  std::string pass;         // or "lower"
  double milliseconds = 0;  // time of the pass, without verification
  bool changed = false;
  size_t count = 0;         // how many accumulations, or kernels, there are after it
  bool over_loops = false;  // `count` is of kernels
};
using Log = std::vector<LogEntry>;  // of the passes that have run

// The passes over accumulations; one kernel for each accumulation; the passes over loops.
ir::Program optimized(const ir::Program& program, const Target& target, const Options& options, Log& log);
loop::Module lowered(const ir::Program& program, Log& log);
loop::Module scheduled(const loop::Module& module, const Target& target, const Options& options, Log& log);
// Between the first two, if there is a memory limit. `live` becomes the estimate of what is live at once.
ir::Program rematerialised(const ir::Program& program, const std::vector<int64_t>& bytes, int64_t goal,
                           const std::vector<optimize::Group>& groups, int64_t& live, Log& log);

// One kernel for each accumulation that the program was written with: of the passes, only those run that lowering
// needs, or that choose the order of sums.
loop::Module unoptimized(const ir::Program& program, const Target& target, Log& log);

}  // namespace caravan::plan
