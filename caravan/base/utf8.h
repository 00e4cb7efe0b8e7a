// UTF-8, one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace caravan {

// A character of a text, or a byte that belongs to none.
struct Utf8Character {
  size_t bytes = 1;    // how many it takes in the text
  uint32_t code = 0;   // its code point
  bool valid = false;  // if false, it is one byte that does not start a valid character
};

// The first character of a text that is not empty. Overlong encodings and surrogates are not valid UTF-8.
Utf8Character first_character(std::string_view text);

// Whether the text is the beginning of one character, whose other bytes may follow.
bool begins_character(std::string_view text);

}  // namespace caravan
