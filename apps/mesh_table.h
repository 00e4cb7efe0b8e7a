// What the devices of a mesh have of each value, and what they exchange: `inspect --stage plan`.
#pragma once

#include <string>

#include "caravan/plan/plan.h"

namespace caravan::app {

std::string mesh_table(const plan::Plan& plan);

}  // namespace caravan::app
