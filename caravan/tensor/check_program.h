// What a program must keep whatever its shapes are.
#pragma once

#include <vector>

#include "caravan/tensor/program.h"

namespace caravan {

// One tensor for each name, one draw for each stream and step, and no parameter trained without the statistics that go
// with it. `order` is everything reachable from the program. Throws StateError, naming the lines.
void check_program(const Program& program, const std::vector<Tensor>& order);

}  // namespace caravan
