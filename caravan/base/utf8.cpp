#include "caravan/base/utf8.h"

#include <string>

namespace caravan {

Utf8Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return uint32_t(uint8_t(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {1, lead, true};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // by number of bytes: the least code that needs them
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool half_pair = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[bytes] || code > 0x10ffff || half_pair) return {};
  return {bytes, code, true};
}

bool begins_character(std::string_view text) {
  for (const char last : {'\x80', '\xbf'}) {  // of the bytes that may follow, the least and the greatest
    std::string completed(text);
    for (int more = 1; more <= 3; ++more) {
      completed += last;
      if (const Utf8Character c = first_character(completed); c.valid && c.bytes == completed.size()) return true;
    }
  }
  return false;
}

}  // namespace caravan
