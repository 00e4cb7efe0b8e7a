#!/usr/bin/env python3
"""Writes caravan/data/unicode_classes.cpp: which code points are letters (\\p{L}), numbers (\\p{N}) and white space (\\s).

    python3 tools/unicode_classes.py > caravan/data/unicode_classes.cpp

They are those of the package `regex` (pip install regex), with which GPT-2's own program splits text.
"""
import regex


def ranges(pattern):
    out = []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000 or not regex.match(pattern, chr(code)):
            continue
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def table(name, pattern):
    lines, line = [], ""
    for first, last in ranges(pattern):
        item = "{0x%x, 0x%x}," % (first, last)
        if len(line) + len(item) > 114:
            lines.append(line.rstrip())
            line = ""
        line += item + " "
    lines.append(line.rstrip())
    return "constexpr Range %s[] = {\n%s\n};\n" % (name, "\n".join("    " + line for line in lines))


print("""// Written by tools/unicode_classes.py from the package regex %s. Run it again instead of changing this file.
#include "caravan/data/unicode_classes.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace caravan::data {

namespace {

struct Range {
  uint32_t first, last;
};

// clang-format off
%s
%s
%s
// clang-format on

bool has(std::span<const Range> ranges, uint32_t code) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), code, [](uint32_t c, const Range& r) { return c < r.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

}  // namespace

CharacterClass character_class(uint32_t code) {
  if (code < 0x80) {  // most are, and the tables are slower
    if ((code | 0x20) >= 'a' && (code | 0x20) <= 'z') return CharacterClass::letter;
    if (code >= '0' && code <= '9') return CharacterClass::number;
    return code == ' ' || (code >= '\\t' && code <= '\\r') ? CharacterClass::space : CharacterClass::other;
  }
  if (has(kLetters, code)) return CharacterClass::letter;
  if (has(kNumbers, code)) return CharacterClass::number;
  return has(kSpaces, code) ? CharacterClass::space : CharacterClass::other;
}

}  // namespace caravan::data""" % (regex.__version__, table("kLetters", r"\p{L}"), table("kNumbers", r"\p{N}"),
                                  table("kSpaces", r"\s")))
