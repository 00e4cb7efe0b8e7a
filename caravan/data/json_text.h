// JSON from a file that nobody vouches for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caravan::data {

// What keeps `text` from being one JSON value that can be read in one way only, as "is not valid JSON at byte 7": its
// grammar, its UTF-8, a name that an object has twice, more than `deepest` levels, a list of more than `longest_list`
// values. Nothing is built from the text, so asking this first bounds what parsing it costs.
std::optional<std::string> json_problem(std::string_view text, size_t deepest, size_t longest_list = SIZE_MAX);

// A text of a file as a message may show it: in quotes, of one line, and not endless.
std::string shown(std::string_view text);

}  // namespace caravan::data
