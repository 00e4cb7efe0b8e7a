// What kernels do and where buffers lie, as tables.
#pragma once

#include <string>

#include "caravan/plan/plan.h"

namespace caravan::app {

std::string kernel_table(const plan::Plan& plan);
std::string memory_table(const plan::Plan& plan);

}  // namespace caravan::app
