// A program as text for people.
#pragma once

#include <string>

#include "caravan/ir/program.h"

namespace caravan::ir {

// As to_string(program), but what writes every element of its target exactly once is written with `=`: nothing
// accumulates there.
std::string readable(const Program& program);
std::string readable(const Program& program, const Accumulation& accumulation);
// "input axis 1", of an axis in memory order: axes of a group are counted from 1.
std::string axis_text(const Shape& shape, size_t axis);

}  // namespace caravan::ir
