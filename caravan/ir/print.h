// A program as text for people.
#pragma once

#include <string>

#include "caravan/ir/program.h"

namespace caravan::ir {

// As to_string(program), but what writes every element of its target exactly once is written with `=`: nothing
// accumulates there.
std::string readable(const Program& program);
std::string readable(const Program& program, const Accumulation& accumulation);

}  // namespace caravan::ir
