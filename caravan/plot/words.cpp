#include "caravan/plot/words.h"

#include <algorithm>

namespace caravan::plot {

namespace {

// The number of bytes of the well-formed UTF-8 character at `at`, or 0 where there is none.
size_t character(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : 4;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t i = 1; i < length; ++i)
    if (byte(at + i) >> 6 != 2) return 0;
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F, beyond = first == 0xF4 && second > 0x8F;
  const bool no_character = first == 0xEF && second == 0xBF && byte(at + 2) >= 0xBE;  // U+FFFE, U+FFFF
  return overlong || surrogate || beyond || no_character ? 0 : length;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = character(text, at);
    const char c = text[at];
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n';
    if (length == 0 || control)
      out += "\uFFFD";
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out.append(text, at, length);
    at += length == 0 ? 1 : length;
  }
  return out;
}

int64_t columns(const std::string& text) {
  int64_t out = 0;
  for (char c : text) out += (static_cast<unsigned char>(c) >> 6) != 2;
  return out;
}

int64_t longest(const std::vector<std::string>& names) {
  int64_t out = 0;
  for (const std::string& name : names) out = std::max(out, columns(name));
  return out;
}

std::string padded(const std::string& name, int64_t width) {
  return std::string(size_t(std::max<int64_t>(0, width - columns(name))), ' ') + name;
}

}  // namespace caravan::plot
