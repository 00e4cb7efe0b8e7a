// The first part of inference: the number of axes of every row, before any axis is looked at.
#pragma once

#include "caravan/shape/system.h"

namespace caravan::shape {

std::vector<int> solve_ranks(const System& system);  // by RowId; throws ShapeError

// "output of `x` (main.cpp:3)"
std::string describe_row(const System& system, RowId row);
std::string describe(const Origin& origin);

}  // namespace caravan::shape
