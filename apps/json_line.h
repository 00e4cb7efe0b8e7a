// Results for a program to read, as --json prints them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace caravan::app {

// One line. Bytes of a path that are not UTF-8, which JSON cannot have, become U+FFFD; NaN and infinities become null.
inline std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace caravan::app
