// Divides the functions of a program into texts that are compiled at the same time.
#pragma once

#include <cstddef>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

// About how long the C compiler takes for a kernel (target/compile_times.h).
double compile_milliseconds(const loop::Kernel& kernel);

// Which functions are in one text, by their numbers. Number 0 is that of the entry functions. All texts take about the
// same time; that of each function is given. None takes much longer than `most`, unless a function alone does. The
// number of texts is a power of two, as the number of processors usually is. The result does not depend on the machine,
// because the texts are part of the key in the cache of compiled code.
std::vector<std::vector<size_t>> balanced(const std::vector<double>& milliseconds, double most);

}  // namespace caravan::codegen
