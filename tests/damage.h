// What a damaged file may do to a reader: be refused with a ConfigError of one line, or be read. Nothing else.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "caravan/base/error.h"

namespace caravan {

using Reader = std::function<void(const std::string& content)>;

// What the reader says of it; "" if it reads it. Another exception passes through, and fails the test.
inline std::string refusal(const Reader& read, const std::string& content) {
  try {
    read(content);
  } catch (const ConfigError& error) {
    const std::string said = error.what();
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    EXPECT_LT(said.size(), 500u) << said;
    return said;
  }
  return "";
}

inline void expect_every_prefix_refused(const Reader& read, const std::string& whole) {
  EXPECT_EQ(refusal(read, whole), "");
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_NE(refusal(read, whole.substr(0, n)), "") << n << " bytes";
}

// Turns every bit round; returns how many of the files were refused.
inline size_t refused_bit_flips(const Reader& read, const std::string& whole) {
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string content = whole;
    content[bit / 8] = char(content[bit / 8] ^ (1 << bit % 8));
    refused += refusal(read, content) != "";
  }
  return refused;
}

struct Damage {
  std::string content, phrase;  // what the reader must say of it
};
inline void expect_refused(const Reader& read, std::initializer_list<Damage> rows) {
  for (const auto& [content, phrase] : rows) {
    const std::string said = refusal(read, content);
    EXPECT_NE(said.find(phrase), std::string::npos) << "expected \"" << phrase << "\", got: " << said;
  }
}

}  // namespace caravan
