// Gives every observed and every assigned value a buffer of its own: a leaf (a state, a number, data), or a value of
// another precision than the state it goes to, is copied by an accumulation.
//
// Runs first, always: later passes and backends rely on it. Promises that every root is computed, that an assigned
// value has its state's precision, and that no old value is wanted after the assignments.
#pragma once

#include "caravan/ir/program.h"

namespace caravan::optimize {

ir::Program copy_leaves(const ir::Program& program);

}  // namespace caravan::optimize
