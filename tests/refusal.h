// What is refused, and with which words.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "caravan/base/error.h"

namespace caravan {

// `f` throws a Refusal whose message has all phrases.
template <class Refusal = UserError, class F>
void expect_refusal(F f, const std::vector<std::string>& phrases) {
  try {
    f();
    ADD_FAILURE() << "not refused";
  } catch (const Refusal& e) {
    for (const std::string& phrase : phrases)
      EXPECT_NE(std::string(e.what()).find(phrase), std::string::npos)
          << "\"" << phrase << "\" is not in: " << e.what();
  }
}

}  // namespace caravan
