// A kernel for each accumulation, with the order of its sums; long sums are kept in lanes.
#pragma once

#include "caravan/lower/lower.h"
#include "caravan/optimize/split_sums.h"
#include "pass_table.h"

namespace caravan::schedule {

inline loop::Module split_lowered(const Program& program, const Target& target) {
  return lower::lower(optimize::split_sums(prepared(program), target));
}
inline loop::Module split_lowered(const Program& program) { return split_lowered(program, tested_target()); }

}  // namespace caravan::schedule
