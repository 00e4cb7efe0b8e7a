// The C of the elementary functions that generated kernels call: branch-free, so that loops of them become vectors.
#pragma once

namespace caravan::codegen {
extern const char* const kMathPrelude;
}
