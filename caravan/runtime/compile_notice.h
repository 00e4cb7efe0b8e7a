// Tells whoever waits at a terminal that a program is being compiled.
//
//     Context ctx({.compiling = notice_on_terminal()});
#pragma once

#include <functional>

namespace caravan {

// For ContextOptions::compiling. Where standard error is a terminal that can redraw a line, a compilation that takes
// longer than a second has a line there, "compiling: 3 of 12 parts", which goes when it is done; elsewhere nothing is
// written.
std::function<void(int done, int total)> notice_on_terminal();

}  // namespace caravan
