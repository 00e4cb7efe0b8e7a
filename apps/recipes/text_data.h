// The texts that language models learn from, found or made.
#pragma once

#include "apps/recipes/language.h"

namespace caravan::app {

// A text before it is divided.
struct FoundText {
  std::string content, source, sum;
  bool stand_in = false;
};
FoundText find_names(const Request& request);
FoundText find_shakespeare(const Request& request);

// The vocabulary of a saved model, or that of the text.
data::Tokenizer letters_of(const Request& request);                          // finds the names if it must
data::Tokenizer letters_of(const Request& request, const FoundText& names);  // with a boundary, `.`
data::Tokenizer characters_of(const Request& request);
data::Tokenizer characters_of(const Request& request, const FoundText& text);

// The parts of a text as examples for this model.
std::vector<TextPart> name_parts(const FoundText& names, const data::Tokenizer& letters, const TextModel& model,
                                 uint64_t seed);
struct VerseData {
  std::vector<TextPart> parts;
  Array train;  // the whole train text, n->
};
VerseData verse_data(const FoundText& text, const data::Tokenizer& characters, const TextModel& model);

}  // namespace caravan::app
