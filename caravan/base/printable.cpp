#include "caravan/base/printable.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <utility>

#include "caravan/base/utf8.h"

namespace caravan {

namespace {

// Is the character invisible, or does it affect the text around it? True for Unicode's control, format and separator
// characters.
bool is_hidden(uint32_t code) {
  constexpr struct {
    uint32_t first, last;
  } kRanges[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},      {0x61c, 0x61c},
                 {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f},
                 {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  for (const auto& range : kRanges)
    if (code >= range.first && code <= range.last) return true;
  return false;
}

std::string escaped(const char* format, uint32_t value) {
  char out[16];
  std::snprintf(out, sizeof out, format, value);
  return out;
}

std::string converted(std::string_view text, size_t most, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    const Utf8Character c = first_character(text);
    std::string piece(text.substr(0, c.bytes));
    if (!c.valid)
      piece = escaped("\\x%02x", uint8_t(text[0]));
    else if (is_hidden(c.code) && kept.find(piece) == kept.npos)
      piece = escaped(c.code < 0x80 ? "\\x%02x" : "\\u%04x", c.code);
    if (out.size() + piece.size() > most) return out + "..";
    out += piece;
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text, size_t most) { return converted(text, most, ""); }

std::string printable_lines(std::string_view text) {
  return converted(text, std::numeric_limits<size_t>::max(), "\n\t");
}

std::string PrintableStream::add(std::string_view piece) {
  waiting_ += piece;
  constexpr size_t kLongestBeginning = 3;  // bytes
  const std::string_view all = waiting_;
  size_t whole = all.size();
  for (size_t n = 1; n <= std::min(kLongestBeginning, all.size()); ++n)
    if (begins_character(all.substr(all.size() - n))) whole = all.size() - n;
  std::string out = printable_lines(all.substr(0, whole));
  waiting_.erase(0, whole);
  return out;
}

std::string PrintableStream::end() { return printable_lines(std::exchange(waiting_, "")); }

}  // namespace caravan
