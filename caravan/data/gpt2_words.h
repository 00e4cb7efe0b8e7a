// How GPT-2 cuts text into words before it looks for byte pairs: no pair crosses the end of a word.
#pragma once

#include <cstddef>
#include <string_view>

namespace caravan::data {

// The bytes of the first word of a text that is not empty. The words are the matches of this regular expression:
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// So a word has the blank before it. A byte that belongs to no valid UTF-8 character is taken for a character that is
// neither a letter, a number nor white space.
size_t first_word(std::string_view text);

}  // namespace caravan::data
