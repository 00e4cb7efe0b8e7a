// Drops the accumulations whose results nothing needs, and the buffers that nothing names.
//
// May run on any program. Promises the same values for what is observed and assigned; the order of what stays is kept.
// Refuses nothing; an assigned state stays although nothing reads it.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program remove_unused(const ir::Program& program);

}  // namespace caravan::optimize
