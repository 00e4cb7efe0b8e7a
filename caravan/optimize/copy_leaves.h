// Gives every observed and every assigned value a buffer of its own. A value that is a leaf (a state, a number, data),
// or whose precision differs from that of the state it is assigned to, is copied by a new accumulation.
//
// Runs first, always: later passes and backends rely on it. Promises that every observed or assigned buffer is computed
// by an accumulation, that an assigned value has its state's precision, and that nothing reads the old value of a state
// after the assignments. Refuses nothing.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program copy_leaves(const ir::Program& program);

}  // namespace caravan::optimize
