// Untrusted text, made safe for a terminal and for use within a sentence.
//
// A tensor may be called "w\x1b]0;gotcha\x07". A terminal that prints this name changes its title; other sequences
// change colours, move the cursor or reverse the direction of text. Every name and text that comes from a file goes
// through here before it is put into a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace caravan {

// The text on one line. Control characters and bytes that are not UTF-8 become `\x1b` and the like; characters that are
// invisible or change the direction of writing become `\u202e` and the like. A result longer than about `most` bytes is
// cut and ends in `..`.
std::string printable(std::string_view text, size_t most = 200);

// The same for a text of several lines and any length: line ends and tabs stay.
std::string printable_lines(std::string_view text);

// The same for a text that comes in pieces. A character may be spread over several of them, as by the tokens of GPT-2;
// it is shown when its last byte is here.
class PrintableStream {
 public:
  std::string add(std::string_view piece);  // what can be shown of the text so far and was not shown before
  std::string end();                        // the rest of the text: bytes whose character did not come

 private:
  std::string waiting_;  // the beginning of a character
};

}  // namespace caravan
