// Drops the accumulations whose results nothing needs, and the buffers that nothing names.
//
// May run on any program. Promises the same values of observed and assigned buffers, and keeps the order of what stays.
// Refuses nothing. An assigned state stays even if nothing reads it.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program remove_unused(const ir::Program& program);

}  // namespace caravan::optimize
