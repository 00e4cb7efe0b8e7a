// What kernels do and where buffers lie, as tables.
#pragma once

#include <string>

#include "caravan/plan/plan.h"
#include "caravan/plan/profile.h"

namespace caravan::app {

// `measured`, a profile of the plan, adds the share of the time that each kernel takes.
std::string kernel_table(const plan::Plan& plan, const plan::Profile* measured = nullptr);
std::string memory_table(const plan::Plan& plan);

}  // namespace caravan::app
