// Measures how fast this processor computes and copies at best, with compiled C.
#pragma once

#include "caravan/backend/cc/compile.h"
#include "caravan/backend/cc/pool.h"
#include "caravan/target/peaks.h"
#include "caravan/target/target.h"

namespace caravan::cc {

// Takes about 0.2 s. Without a pool, measures one thread.
Peaks measure_peaks(const Target& target, Pool* pool, const CompilerOptions& options);

}  // namespace caravan::cc
