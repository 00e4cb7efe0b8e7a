// A text without the blanks at its ends.
#pragma once

#include <string_view>

namespace caravan {

inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r") {
  const size_t from = text.find_first_not_of(blanks);
  return from == text.npos ? "" : text.substr(from, text.find_last_not_of(blanks) - from + 1);
}

}  // namespace caravan
