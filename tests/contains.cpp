#include "contains.h"

#include <gtest/gtest.h>

void expect_contains(const std::string& text, const std::string& phrase, const char* file, int line) {
  if (text.find(phrase) == text.npos) ADD_FAILURE_AT(file, line) << "`" << phrase << "` is not in:\n" << text;
}
