// Runs one accumulation.
#pragma once

#include <optional>
#include <vector>

#include "caravan/backend/interp/buffers.h"

namespace caravan::interp {

// The values of its target. `others` are those that other accumulations, which write other parts, have written so far.
Array accumulate(const ir::Program& program, const ir::Accumulation& accumulation, Buffers& buffers,
                 const std::vector<int64_t>& symbols, const std::optional<Array>& others);

}  // namespace caravan::interp
