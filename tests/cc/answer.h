// A C program of one function, for the tests of what compiles it and keeps it.
#pragma once

#include <string>

#include "caravan/backend/cc/compile.h"

namespace caravan {

inline const char* const kSource = "int answer(void) { return 42; }\n";
inline int answer(const cc::Compiled& compiled) {
  return reinterpret_cast<int (*)()>(compiled.library->symbol("answer"))();
}
inline cc::CompilerOptions in_folder(const std::string& folder, const std::string& compiler = "cc") {
  cc::CompilerOptions options;
  options.cache = folder, options.compiler = compiler;
  return options;
}

}  // namespace caravan
