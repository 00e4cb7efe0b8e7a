// Text that others wrote, made fit for a terminal and for the middle of a sentence.
//
// A tensor may be called "w\x1b]0;gotcha\x07", and a terminal that is shown the name obeys it: titles, colours and
// cursor moves, even text that is read backwards. Every name and text that comes from a file goes through here on its
// way into a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace caravan {

// On one line: control characters and bytes that are not UTF-8 as `\x1b`, characters that are invisible or turn the
// direction of writing as `\u202e`, all else as it is. At most about `most` bytes; what is longer ends in `..`.
std::string printable(std::string_view text, size_t most = 200);

// The same for a text of several lines and any length: line ends and tabs stay.
std::string printable_lines(std::string_view text);

}  // namespace caravan
