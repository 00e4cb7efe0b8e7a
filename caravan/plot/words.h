// Names as they stand in pictures, in UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caravan::plot {

std::string escaped(const std::string& text);  // for XML; what XML cannot hold becomes U+FFFD

int64_t columns(const std::string& text);                    // its characters, each taken to be one column wide
int64_t longest(const std::vector<std::string>& names);      // in columns
std::string padded(const std::string& name, int64_t width);  // spaces before it

}  // namespace caravan::plot
