// The C that every generated unit starts with: conversions, random bits, and what keeps a loop.
#pragma once

#include <string>

namespace caravan::codegen {

struct Helper {
  const char* name;
  const char* text;  // a function that calls no other, or a macro
};
extern const Helper kHelpers[10];

std::string prelude();  // the struct of a run, vectors, all helpers

}  // namespace caravan::codegen
