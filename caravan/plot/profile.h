// Where the time of a step goes, as a picture.
#pragma once

#include <string>

#include "caravan/plan/profile.h"

namespace caravan::plot {

// A bar for each of the slowest kernels: its time, the darker part of it what this machine would need at best, and the
// line of the user's program that it comes from. What the others take together is the last bar.
std::string svg(const plan::Profile& profile, size_t most = 20);

}  // namespace caravan::plot
