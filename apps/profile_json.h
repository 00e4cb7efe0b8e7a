// A profile for a program to read, as `caravan profile --json` prints it.
#pragma once

#include <nlohmann/json.hpp>

#include "caravan/plan/profile.h"

namespace caravan::app {

nlohmann::ordered_json profile_json(const plan::Profile& profile);

}  // namespace caravan::app
