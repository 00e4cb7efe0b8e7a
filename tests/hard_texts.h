// What every tokenizer must do: give back every text, and come back from its own text.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "caravan/base/error.h"
#include "caravan/data/tokenizer.h"

namespace caravan::data {

inline std::string utf8(uint32_t code) {
  if (code < 0x80) return {char(code)};
  if (code < 0x800) return {char(0xc0 | code >> 6), char(0x80 | (code & 63))};
  if (code < 0x10000) return {char(0xe0 | code >> 12), char(0x80 | (code >> 6 & 63)), char(0x80 | (code & 63))};
  return {char(0xf0 | code >> 18), char(0x80 | (code >> 12 & 63)), char(0x80 | (code >> 6 & 63)),
          char(0x80 | (code & 63))};
}

// Texts that a tokenizer may find hard: every byte, random bytes, characters of every length, broken UTF-8, blanks.
inline std::vector<std::string> hard_texts() {
  std::mt19937 random(1);
  std::string bytes, backwards, codes;
  for (int b = 0; b < 256; ++b) bytes += char(b), backwards += char(255 - b);
  for (uint32_t code = 0; code < 0x110000; code += 1 + code / 64)
    if (code < 0xd800 || code > 0xdfff) codes += utf8(code);
  std::vector<std::string> out{"",
                               " ",
                               "a",
                               " a",
                               "a ",
                               "  a  b   c    ",
                               "\n\n\t \r\n",
                               bytes,
                               backwards,
                               codes,
                               "\xc3",
                               "\xe2\x82",
                               "\xf0\x9f\x98",
                               "\xed\xa0\x80",
                               "\xc0\xaf",
                               "\xf4\x90\x80\x80",
                               std::string("\0a\0", 3),
                               "na\u00efve caf\u00e9 \U0001f600\U0001f468\u200d\U0001f469",
                               "<|endoftext|>",
                               "<unk><s></s>\n<s>\n<0x41>"};
  const std::string pieces[] = {" ", "  ",     "\n",     "'",          "'s",   "'ll",  "e", "the",
                                "7", "\u00e9", "\u6f22", "\U0001f600", "\xff", "\x80", "."};
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int n = int(random() % 30); n > 0; --n)
      text += i % 2 ? std::string(1, char(random())) : pieces[random() % std::size(pieces)];
    out.push_back(text);
  }
  return out;
}

inline void expect_round_trips(const Tokenizer& tokenizer) {
  for (const std::string& text : hard_texts()) {
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(ids), text);
    for (const int32_t id : ids) ASSERT_TRUE(id >= 0 && id < tokenizer.size()) << id;
  }
}

// The tokenizer that its text gives is the same.
inline void expect_comes_back(const Tokenizer& tokenizer) {
  const Tokenizer back = parse_tokenizer(tokenizer.text(), "a.safetensors");
  EXPECT_EQ(back.text(), tokenizer.text());
  EXPECT_EQ(back.size(), tokenizer.size());
  EXPECT_EQ(back.start(), tokenizer.start());
  EXPECT_EQ(back.end(), tokenizer.end());
  for (const std::string& text : hard_texts()) try {
      EXPECT_EQ(back.encode(text), tokenizer.encode(text));
    } catch (const ConfigError&) {  // a text with other characters
    }
}

}  // namespace caravan::data
