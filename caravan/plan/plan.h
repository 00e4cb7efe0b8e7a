// The one way from a verified program to the kernels that run: all passes, in order, and the places of buffers in
// memory. What is compiled, shown, exported and measured is read from the same plan.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/plan/memory.h"
#include "caravan/plan/passes.h"
#include "caravan/target/target.h"

namespace caravan::plan {

struct Plan {
  Target target;
  Options options;
  ir::Program program;     // as it was inferred
  bool made = false;       // by make_plan; if not, the plan has only what it would be made of, and the rest is empty
  ir::Program optimized;   // after the passes over accumulations
  loop::Module scheduled;  // the kernels that run
  MemoryPlan memory;
  Log log;
};

// StateError if the program cannot be computed within the memory limit.
Plan make_plan(const ir::Program& program, const Target& target, const Options& options = {});

}  // namespace caravan::plan
