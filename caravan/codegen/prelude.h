// The C that every generated unit starts with: conversions and random bits.
#pragma once

#include <string>

namespace caravan::codegen {

struct Helper {
  const char* name;
  const char* text;  // a function that calls no other
};
extern const Helper kHelpers[9];

std::string prelude();  // the struct of a run, vectors, all helpers

}  // namespace caravan::codegen
