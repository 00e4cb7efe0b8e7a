// How fast this processor computes and copies at best, measured with C that its compiler made.
#pragma once

#include "caravan/backend/cc/compile.h"
#include "caravan/backend/cc/pool.h"
#include "caravan/target/peaks.h"
#include "caravan/target/target.h"

namespace caravan::cc {

// Takes about a fifth of a second. Without a pool, of one thread.
Peaks measure_peaks(const Target& target, Pool* pool, const CompilerOptions& options);

}  // namespace caravan::cc
