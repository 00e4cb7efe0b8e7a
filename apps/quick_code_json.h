// Quickly compiled code that a step began on, for a program to read.
#pragma once

#include <nlohmann/json.hpp>

#include "caravan/base/quick_code.h"

namespace caravan::app {

inline nlohmann::ordered_json quick_code_json(const QuickCode& quick) {
  nlohmann::ordered_json out{{"steps", quick.steps}, {"changed", quick.changed}, {"seconds", quick.seconds}};
  if (!quick.problem.empty()) out["problem"] = quick.problem;
  return out;
}

}  // namespace caravan::app
