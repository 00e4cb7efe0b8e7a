// Results for a program to read, as --json prints them and the page's server sends them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace caravan::app {

// Bytes of a path that are not UTF-8, which JSON cannot have, become U+FFFD; NaN and infinities become null.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}
inline std::string json_line(const nlohmann::ordered_json& json) { return json_text(json) + "\n"; }

}  // namespace caravan::app
