// Which vectors the C compiler may use. Flags such as -mno-avx512f or -march=haswell allow fewer than the processor
// has.
#pragma once

#include "caravan/backend/cc/compile.h"
#include "caravan/target/target.h"

namespace caravan::cc {

// The target with no wider vectors than the flags allow, and without fused multiply-add if they do not allow it. If a
// flag may change that, the compiler is asked for its macros. Built-in tuning numbers become those for such vectors.
Target with_allowed_vectors(const Target& target, const CompilerOptions& options);

}  // namespace caravan::cc
