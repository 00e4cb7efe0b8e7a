#include "caravan/data/gpt2_words.h"

#include "caravan/base/utf8.h"
#include "caravan/data/unicode_classes.h"

namespace caravan::data {

namespace {

struct Classified {
  CharacterClass kind;
  size_t bytes;
};
Classified classified(std::string_view text) {
  const Utf8Character c = first_character(text);
  return {c.valid ? character_class(c.code) : CharacterClass::other, c.bytes};
}

struct Run {
  size_t bytes = 0;
  size_t last = 0;  // the bytes of its last character
};
// The longest run of characters of one class at the beginning of a text.
Run run_of(CharacterClass kind, std::string_view text) {
  Run out;
  while (out.bytes < text.size()) {
    const Classified c = classified(text.substr(out.bytes));
    if (c.kind != kind) break;
    out = {out.bytes + c.bytes, c.bytes};
  }
  return out;
}

}  // namespace

size_t first_word(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();

  const size_t blank = text.size() > 1 && text[0] == ' ' ? 1 : 0;
  const CharacterClass kind = classified(text.substr(blank)).kind;
  if (kind != CharacterClass::space) return blank + run_of(kind, text.substr(blank)).bytes;

  // White space: the last character of it is left for the word that follows, unless it is the only one.
  const Run spaces = run_of(CharacterClass::space, text);
  return spaces.bytes == text.size() || spaces.bytes == spaces.last ? spaces.bytes : spaces.bytes - spaces.last;
}

}  // namespace caravan::data
