// EXPECT_CONTAINS(text, phrase): the phrase is somewhere in the text.
#pragma once

#include <string>

void expect_contains(const std::string& text, const std::string& phrase, const char* file, int line);

#define EXPECT_CONTAINS(text, phrase) expect_contains(text, phrase, __FILE__, __LINE__)
