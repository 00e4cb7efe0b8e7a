#include "caravan/plot/words.h"

#include <algorithm>
#include <string_view>

#include "caravan/base/utf8.h"

namespace caravan::plot {

namespace {

// The number of bytes of the first character, or 0 where it is none that XML may have.
size_t character(std::string_view text) {
  const Utf8Character c = first_character(text);
  return c.valid && c.code != 0xfffe && c.code != 0xffff ? c.bytes : 0;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = character(std::string_view(text).substr(at));
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
