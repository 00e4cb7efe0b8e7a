// The interpreter, whose every program the compiled backend runs too. What a test asks is answered by the interpreter
// at once, in double; the programs it ran are kept and, at the end of all tests, compiled many at a time (a compilation
// costs more than what such programs compute) and held to the interpreter's results: in f64 to 1e-12, and in the
// precisions they were written in.
//
//     Context ctx(checked());
#pragma once

#include "programs.h"

namespace caravan {

ContextOptions checked(ContextOptions options = {});

// Every float in f64, as the interpreter computes; what the program casts to is as it was.
Task in_f64(Task task);

}  // namespace caravan
