// Where in the user's program something was written.
#pragma once

#include <string>

namespace caravan {

// Converting constructors and public functions take `Source where = here()` through defaulted
// arguments, so that the position is the caller's. (Clang 14 lacks a working std::source_location.)
struct Source {
  const char* file = "";  // the path that the compiler was given
  int line = 0;           // from 1; 0: not known

  // As a default argument, this gives the line of the caller.
  static constexpr Source here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool known() const { return line > 0; }  // whether there is a line
};

std::string to_string(Source where);   // "moons.cpp:12"; the folder is dropped
std::string where_text(Source where);  // " (moons.cpp:12)", to follow a name in a message; empty where it is not known

}  // namespace caravan
